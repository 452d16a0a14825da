"""Tests of the cleaner."""
