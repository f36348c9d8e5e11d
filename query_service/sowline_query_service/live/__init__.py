"""Live subscriptions: each change goes to every subscription that it concerns."""
