"""Configurations: checks of changes, and how they are shown."""
