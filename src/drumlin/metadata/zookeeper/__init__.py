"""Metadata in ZooKeeper, in the znodes of Apache Kafka 3.9's ZooKeeper mode."""
