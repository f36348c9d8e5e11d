"""Changes: the events that a materializer emits, the states that views write, and the rule for loading them. Pure."""
