"""Authentication of a client and its brokers: TLS and SASL logins. Independent of Kafka's
requests.
"""
