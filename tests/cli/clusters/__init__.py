"""Tests of `drumlin.cli.clusters`."""
