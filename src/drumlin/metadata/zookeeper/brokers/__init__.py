"""Brokers: the registration of this one, which others are alive, and which is the controller."""
