"""Tests of `drumlin.storage.recovery`."""
