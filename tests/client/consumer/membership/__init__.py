"""Tests of `drumlin.client.consumer.membership`."""
