"""Tests of `drumlin.broker.topics`."""
