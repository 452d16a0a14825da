"""Tests of `drumlin.broker.several_apis`."""
