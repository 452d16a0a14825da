"""Tests of `drumlin.coordination.shards`."""
