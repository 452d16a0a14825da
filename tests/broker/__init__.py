"""Tests of the broker: its APIs as a client sees them, and its parts by themselves."""
