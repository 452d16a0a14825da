"""Reading the cluster, and writing the states and replicas of partitions. Blocking."""
