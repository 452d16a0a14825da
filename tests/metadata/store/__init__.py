"""Tests of `drumlin.metadata.store`."""
