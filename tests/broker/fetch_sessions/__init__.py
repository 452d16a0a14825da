"""Tests of `drumlin.broker.fetch_sessions`."""
