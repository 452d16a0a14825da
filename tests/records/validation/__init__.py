"""Tests of `drumlin.records.validation`."""
