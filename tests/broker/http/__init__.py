"""Tests of `drumlin.broker.http`."""
