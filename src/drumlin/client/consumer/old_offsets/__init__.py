"""Offsets that a group keeps in ZooKeeper, as consumers of Kafka 0.8 do."""
