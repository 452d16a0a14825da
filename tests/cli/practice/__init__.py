"""Tests of `drumlin.cli.practice`."""
