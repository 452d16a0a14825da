"""Tests of `drumlin.cli.dump`."""
