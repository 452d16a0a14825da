"""Tests of `drumlin.client.state`."""
