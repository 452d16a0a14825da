"""Typed values: JSON, Avro and Protobuf in the bytes of records, as Arrow columns.

Pure but for the schema registry, which `registry.py` alone talks to. It knows nothing of Spark.
"""
