"""The partitions that this broker hosts; in Kafka the `ReplicaManager`. It answers no requests."""
