"""Tests of the storage layer: on real files, through doors that fail or forget where wanted."""
