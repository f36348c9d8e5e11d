"""The Python client: queries, subscriptions, local views and publishing."""
