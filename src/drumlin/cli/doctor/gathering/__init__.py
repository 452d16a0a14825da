"""Facts, gathered from this machine, from a data directory, and from brokers."""
