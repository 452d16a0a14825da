"""Tests of `drumlin.broker.hosting`."""
