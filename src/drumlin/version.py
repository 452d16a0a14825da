"""The version of this package, in this one place; the build reads it here. Imports nothing."""

__version__ = "0.2.0"
