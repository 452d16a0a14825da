"""Tests of `drumlin.storage.replacement`."""
