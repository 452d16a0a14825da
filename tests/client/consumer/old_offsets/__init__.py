"""Tests of `drumlin.client.consumer.old_offsets`."""
