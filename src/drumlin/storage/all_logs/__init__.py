"""All logs of a broker over all of its `log.dirs`; in Kafka the `LogManager`.

Rounds over all logs are plain functions here: when they run, the broker decides.
"""
