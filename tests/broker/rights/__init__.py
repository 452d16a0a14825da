"""Tests of `drumlin.broker.rights`."""
