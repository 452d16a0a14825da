"""Tests of `drumlin.broker.fetching`."""
