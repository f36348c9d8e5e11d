"""Nexmark: an auction site's persons, auctions and bids, and views that answer the benchmark's first queries."""
