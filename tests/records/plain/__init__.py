"""Tests of `drumlin.records.plain`."""
