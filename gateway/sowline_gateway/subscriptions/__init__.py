"""Subscriptions over several query services: their live messages are passed on to one client."""
