"""Tests of `drumlin.spark.planning`."""
