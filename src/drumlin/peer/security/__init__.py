"""How a client proves brokers and itself: TLS, and logins by SASL. Knows no Kafka request."""
