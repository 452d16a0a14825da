"""Reads of the cluster, and writes of the states and replicas of partitions. Blocking."""
