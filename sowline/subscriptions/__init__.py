"""What subscribers get of changes: the engine that decides it, and the messages in which it is sent."""
