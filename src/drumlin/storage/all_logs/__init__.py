"""All logs of a broker in all of its `log.dirs`, Kafka's `LogManager`.

Rounds over all logs are plain functions here; the broker decides when they run.
"""
