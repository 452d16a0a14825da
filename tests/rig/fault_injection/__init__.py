"""Faults for whole processes: calls that fail, disks that fail and return, clocks."""
