"""The HTTP side of a service: addresses, parameters, bodies, errors, and files."""
