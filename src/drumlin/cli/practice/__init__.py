"""A practice cluster on this machine: a ZooKeeper and some brokers, supervised by one process.

Uses only what any user of a broker has: its command line, its configuration and the line that
reports it ready. Never looks into a broker's data.
"""
