"""One asyncio process that serves Kafka's protocol.

`start` puts the broker together. `net` gives `router.py` requests, and that asks `handlers`, a file
for each API. What they ask in turn is `producing`, `fetching`, `share_fetch`, `hosting` (the
partitions here) and `remote` (those elsewhere); none of these knows the whole, but `parts`.
"""
