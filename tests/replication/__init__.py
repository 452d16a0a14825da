"""Tests of the replication layer."""
