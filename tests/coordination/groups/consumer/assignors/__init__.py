"""Tests of `drumlin.coordination.groups.consumer.assignors`."""
