"""Tests of `drumlin.metadata.shared`."""
