"""Tests of `drumlin.coordination.groups.classic`."""
