"""What is raised where stored state can't be trusted."""


class StoreDamaged(Exception):
    """What the store holds can't be trusted any more: close it and recover the partition another way."""
