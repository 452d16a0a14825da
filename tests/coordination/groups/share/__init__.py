"""Tests of `drumlin.coordination.groups.share`."""
