"""Tests of `drumlin.compaction.passes`."""
