"""The metadata of a cluster: brokers, topics, configurations, and blocks of producer ids."""
