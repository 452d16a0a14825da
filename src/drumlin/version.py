"""The version of this package: a module of its own, which anything may import."""

__version__ = "0.1.0"
