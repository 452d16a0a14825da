"""Tests of `drumlin.broker.producing`."""
