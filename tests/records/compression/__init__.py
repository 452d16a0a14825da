"""Tests of `drumlin.records.compression`."""
