"""Tests of `drumlin.client.consumer.fetching`."""
