"""Tests of `drumlin.broker.share_partitions`."""
