"""Protocols through which parts of the broker use each other, so that none imports `Broker`."""
