"""Tests of `drumlin.cli.topics`."""
