"""Other names for what the client has: those of earlier versions, and those of Kafka's clients."""
