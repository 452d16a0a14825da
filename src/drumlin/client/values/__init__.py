"""Typed values: decodes JSON, Avro and Protobuf in the bytes of records into Arrow columns.

No I/O except with the schema registry, in `registry.py` alone. Knows nothing of Spark.
"""
