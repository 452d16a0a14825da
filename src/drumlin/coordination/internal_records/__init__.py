"""Records of Kafka's internal topics: schemas, declared and compiled; and the last of each key."""
