"""The store of a partition: records, expiry index and checkpoint, committed together."""
