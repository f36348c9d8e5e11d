"""A worked example: orders in Avro whose schema evolves under a subscription, and orders in Protobuf."""
