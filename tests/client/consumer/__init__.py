"""Tests of `drumlin.client.consumer`."""
