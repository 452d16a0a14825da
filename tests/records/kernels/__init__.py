"""Tests of `drumlin.records.kernels`."""
