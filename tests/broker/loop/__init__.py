"""Tests of `drumlin.broker.loop`."""
