"""`sowline top`: topics, partitions and services, refreshed each second."""
