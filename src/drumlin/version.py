"""The only definition of this package's version, which the build reads. Imports nothing."""

__version__ = "0.2.0"
