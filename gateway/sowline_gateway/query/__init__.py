"""Queries over several query services: parts of the answer are merged to one."""
