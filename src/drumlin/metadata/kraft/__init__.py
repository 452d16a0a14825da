"""The metadata log of an Apache Kafka in KRaft mode, which is read once to take over its data."""
