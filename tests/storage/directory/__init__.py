"""Tests of `drumlin.storage.directory`."""
