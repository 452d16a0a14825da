"""Tests of `drumlin.broker.configs`."""
