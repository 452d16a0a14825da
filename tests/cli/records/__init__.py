"""Tests of `drumlin.cli.records`."""
