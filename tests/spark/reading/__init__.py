"""Tests of `drumlin.spark.reading`."""
