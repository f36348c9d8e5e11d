"""The languages that users write: filters, expressions, groups, deltas and conditions of documents. Pure."""
