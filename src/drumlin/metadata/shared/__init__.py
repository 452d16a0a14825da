"""The embedded store for several brokers of a machine: a process owns it, brokers ask by a socket.

`authority.py` is the owner's side, `metadata.py` a broker's. `channel.py` takes messages between
them, `codec.py` says what they hold.
"""
