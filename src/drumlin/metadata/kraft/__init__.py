"""The metadata log of an Apache Kafka in KRaft mode, read once to take over its data."""
