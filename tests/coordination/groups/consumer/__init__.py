"""Tests of `drumlin.coordination.groups.consumer`."""
