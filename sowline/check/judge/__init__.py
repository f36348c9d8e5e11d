"""The judge of histories: which guarantees a history keeps. It knows nothing of how a service keeps them."""
