"""The exception for damaged record bytes."""

from __future__ import annotations

__all__ = ["CorruptRecord"]


class CorruptRecord(ValueError):
    """The bytes are not a record batch, or do not match their header."""
