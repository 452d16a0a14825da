"""The error of code that reads record bytes and finds them damaged."""

from __future__ import annotations

__all__ = ["CorruptRecord"]


class CorruptRecord(ValueError):
    """The bytes are not a record batch, or not the one that their header promises."""
