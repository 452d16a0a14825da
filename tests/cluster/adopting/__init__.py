"""Data that was a single broker's, or Kafka's, and is a cluster's."""
