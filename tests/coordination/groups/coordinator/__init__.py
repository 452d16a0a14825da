"""Tests of `drumlin.coordination.groups.coordinator`."""
