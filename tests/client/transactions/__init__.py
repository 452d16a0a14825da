"""Tests of `drumlin.client.transactions`."""
