"""Benchmarks: Drumlin beside Apache Kafka, and its Spark source beside Spark's Kafka connector.

`./script/bench` runs all of them, `./script/bench produce fetch --rounds 5` some. Every one is a
module with a `run(options)` that returns `Comparison`s; what they share is in `harness`.
"""
