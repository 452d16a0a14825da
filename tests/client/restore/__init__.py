"""Tests of `drumlin.client.restore`."""
