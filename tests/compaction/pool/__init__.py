"""Tests of `drumlin.compaction.pool`."""
