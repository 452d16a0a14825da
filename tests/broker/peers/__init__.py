"""Tests of `drumlin.broker.peers`."""
