"""Tests of `drumlin.metadata.zookeeper`."""
