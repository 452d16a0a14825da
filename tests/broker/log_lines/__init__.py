"""Tests of `drumlin.broker.log_lines`."""
