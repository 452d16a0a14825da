"""Names of calls and options in earlier versions and in Kafka's clients."""
