"""The partitions that this broker hosts; in Kafka the `ReplicaManager`. Answers no request."""
