"""Checks: functions from facts to findings, without I/O."""
