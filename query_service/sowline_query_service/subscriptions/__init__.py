"""One subscription from its snapshot through catch-up or replay to live."""
