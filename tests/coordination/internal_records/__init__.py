"""Tests of `drumlin.coordination.internal_records`."""
