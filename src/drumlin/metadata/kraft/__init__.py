"""The metadata log of an Apache Kafka in KRaft mode: read once, when its data is taken over."""
