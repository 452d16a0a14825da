"""Tests of `drumlin.coordination.groups.every_kind`."""
