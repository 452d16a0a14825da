"""Connections to the other brokers, and asking the coordinators of transactions there."""
