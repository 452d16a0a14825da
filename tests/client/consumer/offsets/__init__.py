"""Tests of `drumlin.client.consumer.offsets`."""
