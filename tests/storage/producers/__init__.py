"""Tests of `drumlin.storage.producers`."""
