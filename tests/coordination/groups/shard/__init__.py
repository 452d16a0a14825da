"""Tests of `drumlin.coordination.groups.shard`."""
