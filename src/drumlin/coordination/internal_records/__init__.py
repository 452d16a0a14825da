"""Records of Kafka's internal topics: compiled schemas, and the last record of each key."""
