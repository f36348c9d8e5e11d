"""The distribution, installed into environments of its own."""
