"""What the cluster knows about itself: brokers, topics, configurations, producer id blocks."""
