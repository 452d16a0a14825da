"""Tests of `drumlin.client.consumer.assignors`."""
