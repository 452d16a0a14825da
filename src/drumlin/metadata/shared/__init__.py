"""The embedded store for several brokers of a machine: one process owns it, and brokers reach it by
sockets.

`authority.py` is the owner's side, `metadata.py` a broker's. `channel.py` transports messages
between the two, and `codec.py` encodes their contents.
"""
