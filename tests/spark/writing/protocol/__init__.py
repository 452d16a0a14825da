"""Tests of `drumlin.spark.writing.protocol`."""
