"""Migration of committed offsets between stores: files, ZooKeeper, and other clusters."""
