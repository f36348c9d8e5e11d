"""What is raised where a partition's store can't be trusted."""


class StoreDamaged(Exception):
    """What the store holds can't be trusted any more: close it and recover the partition another way."""
