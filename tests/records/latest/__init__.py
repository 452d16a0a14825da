"""Tests of `drumlin.records.latest`."""
