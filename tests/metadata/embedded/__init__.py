"""Tests of `drumlin.metadata.embedded`."""
