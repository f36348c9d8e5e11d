"""Commands on the state of a topic: dump, verify, backup, restore, rebuild."""
