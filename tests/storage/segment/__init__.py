"""Tests of `drumlin.storage.segment`."""
