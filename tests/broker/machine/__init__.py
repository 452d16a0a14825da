"""Tests of `drumlin.broker.machine`."""
