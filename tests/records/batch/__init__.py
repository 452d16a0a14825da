"""Tests of `drumlin.records.batch`."""
