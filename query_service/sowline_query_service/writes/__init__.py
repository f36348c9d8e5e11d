"""The commands that are written through a query service or a gateway, and the reports about them."""
