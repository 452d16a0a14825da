"""The same requests to Apache Kafka and to Drumlin; their answers compared field by field."""
