"""Brokers for tests; docs/testing.md tells how to use them, with pytest and without.

The pytest plugin loads this in every run of pytest, so it must stay light: no broker, no client
and no Arrow until a test asks for a broker.
"""

from drumlin.testing.local_broker import Broker, BrokerFailed, broker

__all__ = ["Broker", "BrokerFailed", "broker"]
