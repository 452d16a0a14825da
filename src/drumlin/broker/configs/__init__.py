"""Configurations: checks of changes, and descriptions for clients."""
