"""Tests of `drumlin.metadata.to_zookeeper`."""
