"""A worked example: a blotter of FIX orders, with their executions in NVFIX."""
