"""Commands on a topic's log: their headers, their keys, and the versions of what is stored. Pure."""
