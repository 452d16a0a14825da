"""Tests of `drumlin.broker.handlers`."""
