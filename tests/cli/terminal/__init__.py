"""Tests of `drumlin.cli.terminal`."""
