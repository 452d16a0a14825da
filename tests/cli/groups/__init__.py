"""Tests of `drumlin.cli.groups`."""
