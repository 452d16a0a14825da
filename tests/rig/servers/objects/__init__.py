"""Stores of objects for tests."""
