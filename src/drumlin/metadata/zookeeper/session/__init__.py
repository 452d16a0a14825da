"""A session with ZooKeeper, its thread, and the errors that clients get when it fails."""
