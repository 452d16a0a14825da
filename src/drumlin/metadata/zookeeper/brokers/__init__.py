"""Brokers: the registration of this broker, the live brokers, and the controller."""
