"""Tests of `drumlin.broker.quotas`."""
