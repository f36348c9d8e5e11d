"""The State of the World of one partition in memory: records, recent changes, history, timelines. Pure."""
