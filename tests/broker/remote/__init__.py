"""Tests of `drumlin.broker.remote`."""
