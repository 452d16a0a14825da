"""TLS and SASL of the client: the pure parts, hostile brokers, and a real one with all of it."""
