"""Tests of `drumlin.coordination.groups.offsets`."""
