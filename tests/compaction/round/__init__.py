"""Tests of `drumlin.compaction.round`."""
