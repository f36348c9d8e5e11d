"""Sowline keeps the State of the World of Kafka topics: what every service and client shares."""

__version__ = "0.1.0"
