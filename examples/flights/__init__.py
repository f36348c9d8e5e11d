"""The main demo: a year of real flights, replayed through Spark and Kafka into a live State of the World."""
