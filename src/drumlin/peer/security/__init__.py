"""Authentication of a client and its brokers: TLS and SASL logins. Knows no Kafka request."""
