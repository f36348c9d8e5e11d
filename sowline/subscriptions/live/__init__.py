"""Live messages as the query service and the gateway send them to clients."""
