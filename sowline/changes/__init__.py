"""Changes: what a materializer emits of a topic, the states that views write, and the rule of loading them. Pure."""
