"""Typed values in Spark: columns of JSON or Avro into columns of their own types, and back."""
