"""The move of a stopped broker's or Kafka's metadata into ZooKeeper: once in a cluster's life.

Nothing else in `metadata` imports this.
"""
