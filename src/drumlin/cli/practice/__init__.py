"""A practice cluster on this machine: a ZooKeeper and some brokers, which one process looks after.

Knows of brokers what any user knows: their command line, their configuration and the line that
says they are ready. It never looks into their data.
"""
