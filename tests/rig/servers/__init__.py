"""Servers of others that tests need: Apache Kafka, ZooKeeper, HDFS, registries."""
