"""Messages between clients and services: requests, options, answers, frames. Pure."""
