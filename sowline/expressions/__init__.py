"""What requests and topics compute with the filter language: order, projection, enrichment. Pure."""
