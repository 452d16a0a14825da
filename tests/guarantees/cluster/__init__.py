"""Three brokers on one ZooKeeper, and clients of every kind, while everything else fails."""
