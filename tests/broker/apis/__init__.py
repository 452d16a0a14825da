"""Tests of `drumlin.broker.apis`."""
