"""What is wrong with record bytes, as seen by code that only reads them."""

from __future__ import annotations

__all__ = ["CorruptRecord"]


class CorruptRecord(ValueError):
    """Bytes that are no record batch, or not the one that their header promises."""
