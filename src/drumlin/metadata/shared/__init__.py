"""The embedded store for several brokers of a machine: a process owns it, brokers use sockets.

`authority.py` is the owner's side, `metadata.py` a broker's. `channel.py` transports the
messages between them, `codec.py` encodes their contents.
"""
