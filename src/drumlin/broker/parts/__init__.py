"""Protocols through which parts of the broker use each other without importing `Broker`."""
