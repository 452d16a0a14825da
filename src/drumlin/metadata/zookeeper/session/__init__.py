"""A session with ZooKeeper, its thread, and what clients are told when it fails."""
