"""Typed values in Spark: JSON or Avro columns decoded into typed columns, and encoded."""
