"""Tests of `drumlin.metadata.kraft`."""
