"""The topics that a service serves: their state, indexes, and the thread that follows their changes."""
