"""A twin of the exactly-once sink: its own code, on a model of a cluster and of Spark."""
