"""The move of metadata of a stopped broker or Kafka into ZooKeeper, once in a cluster's life.

Nothing else in `metadata` imports this.
"""
