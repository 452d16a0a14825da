"""Tests of `drumlin.metadata.rules`."""
