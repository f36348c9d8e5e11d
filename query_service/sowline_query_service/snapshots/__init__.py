"""Snapshots of the replica on the local disk: a query service starts from them instead of loading everything."""
