"""Tests of `drumlin.client.read`."""
