"""Tests of `drumlin.spark.options`."""
