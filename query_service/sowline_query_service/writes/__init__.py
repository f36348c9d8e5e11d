"""What a query service knows of the commands that are written through it, or through a gateway."""
