"""Tests of `drumlin.broker.start`."""
