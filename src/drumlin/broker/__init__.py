"""One asyncio process that serves Kafka's protocol.

`start` puts the broker together. `net` receives requests, and `router.py` hands each to its handler
in `handlers`, which has a file for each API. Handlers call `producing`, `fetching`, `share_fetch`,
`hosting` (the partitions of this broker) and `remote` (those of other brokers). None of these
imports `Broker`: they know the protocols in `parts`.
"""
