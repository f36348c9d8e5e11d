"""`sowline doctor`: facts, checks and findings."""
