"""Tests of `drumlin.storage.all_logs`."""
