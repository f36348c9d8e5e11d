"""The whole system in one process: real services over a Kafka, disks, clocks and clients that are played, by seed."""
