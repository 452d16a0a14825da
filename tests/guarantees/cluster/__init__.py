"""Three brokers on one ZooKeeper, with clients of every kind, while everything between them fails."""
