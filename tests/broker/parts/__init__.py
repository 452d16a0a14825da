"""Tests of `drumlin.broker.parts`."""
