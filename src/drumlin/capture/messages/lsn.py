"""Positions in PostgreSQL's WAL (LSNs): numbers in code, `16/B374D848` for people."""

from __future__ import annotations


def lsn_text(lsn: int) -> str:
    """An LSN as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def parse_lsn(text: str) -> int:
    """The LSN that a text stands for.

    Raises:
        ValueError: the text is no LSN.
    """
    high, slash, low = text.partition("/")
    if not slash or not 0 < len(high) <= 8 or not 0 < len(low) <= 8:
        raise ValueError(f"{text!r} is no LSN")
    return int(high, 16) << 32 | int(low, 16)
