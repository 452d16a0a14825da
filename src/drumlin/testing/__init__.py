"""Brokers for tests; docs/testing.md shows how to use them, with pytest and without.

The pytest plugin loads this module in every run of pytest, so it must stay light: no import of the
broker, the client or Arrow before a test asks for a broker.
"""

from drumlin.testing.local_broker import Broker, BrokerFailed, broker

__all__ = ["Broker", "BrokerFailed", "broker"]
