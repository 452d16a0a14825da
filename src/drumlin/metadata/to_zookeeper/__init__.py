"""Moving the metadata of a stopped broker, or of a stopped Kafka, into ZooKeeper: once in its life.

Nothing else in `metadata` imports this.
"""
