"""Tests of `drumlin.storage.log`."""
