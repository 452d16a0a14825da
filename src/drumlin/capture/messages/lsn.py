"""Positions in PostgreSQL's WAL (LSNs): numbers in code, `16/B374D848` for people."""

from __future__ import annotations

from typing import Final


def lsn_text(lsn: int) -> str:
    """An LSN as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def parse_lsn(text: str) -> int:
    """Parse an LSN.

    Raises:
        ValueError: the text is not an LSN.
    """
    high, slash, low = text.partition("/")
    if not slash or not 0 < len(high) <= 8 or not 0 < len(low) <= 8:
        raise ValueError(f"{text!r} is no LSN")
    return int(high, 16) << 32 | int(low, 16)


#: The sizes of WAL page headers: on the first page of a segment, and on all others.
_LONG_BYTES: Final = 40
_SHORT_BYTES: Final = 24


def end_of_records(insert_lsn: int, block_bytes: int, segment_bytes: int) -> int:
    """The end of the last WAL record, as the stream reports it, from the server's insert LSN.

    At a page boundary the insert LSN is after the header of the next page.
    """
    is_first = insert_lsn % segment_bytes < block_bytes
    header_bytes = _LONG_BYTES if is_first else _SHORT_BYTES
    return insert_lsn - (header_bytes if insert_lsn % block_bytes == header_bytes else 0)
