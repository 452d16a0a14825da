"""How a client and its brokers authenticate: TLS and SASL logins. Knows no Kafka request."""
