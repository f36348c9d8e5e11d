"""Answer queries and subscriptions from a replica of the State of the World."""
