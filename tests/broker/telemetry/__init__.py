"""Tests of `drumlin.broker.telemetry`."""
