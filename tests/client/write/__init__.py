"""Tests of `drumlin.client.write`."""
