"""Tests of `drumlin.storage.files`."""
