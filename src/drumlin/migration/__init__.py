"""Moving committed offsets between stores: files, ZooKeeper, and other clusters."""
