"""`drumlin cluster`: the brokers of a cluster, and clusters for practice."""
