"""Tests of `drumlin.coordination.groups`."""
