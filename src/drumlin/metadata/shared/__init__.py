"""The embedded store for several brokers of a machine, owned by one process.

Brokers access the store over sockets. `authority.py` is the owner's side, `metadata.py` is a
broker's side. `channel.py` transports messages between the two, and `codec.py` encodes their
contents.
"""
