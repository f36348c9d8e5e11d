"""Who comes in at the doors of the query service, and what that one may do."""
