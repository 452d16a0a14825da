"""Protocols of what parts of the broker use of each other, so that none has to import `Broker`."""
