"""Tests of `drumlin.broker.net`."""
