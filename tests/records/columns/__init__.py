"""Tests of `drumlin.records.columns`."""
