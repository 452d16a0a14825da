"""Checks that bytes are valid UTF-8, which Arrow requires of columns of text."""

from __future__ import annotations

from drumlin.records.kernels.code.dialect import Pointer, helper
from drumlin.records.kernels.code.words import load_word

_HIGH_BITS = -0x7F7F7F7F7F7F7F80  # 0x80 in each byte


@helper
def is_text(data: Pointer, position: int, end: int) -> bool:
    """Whether `data[position:end]` is valid UTF-8."""
    while position + 8 <= end and load_word(data, position) & _HIGH_BITS == 0:
        position += 8
    while position < end:
        lead = data[position]
        if lead < 0x80:
            position += 1
            continue
        size = _size(lead)
        if size == 0 or position + size > end:
            return False
        second = data[position + 1]
        if second & 0xC0 != 0x80 or not _may_follow(lead, second):
            return False
        for index in range(2, size):
            if data[position + index] & 0xC0 != 0x80:
                return False
        position += size
    return True


@helper
def _size(lead: int) -> int:
    """The size of a non-ASCII character, from its first byte; 0 if that byte is invalid."""
    if 0xC2 <= lead <= 0xDF:
        return 2
    if 0xE0 <= lead <= 0xEF:
        return 3
    if 0xF0 <= lead <= 0xF4:
        return 4
    return 0


@helper
def _may_follow(lead: int, second: int) -> bool:
    """Whether this is no overlong form, no surrogate, and not beyond U+10FFFF."""
    if lead == 0xE0:
        return second >= 0xA0
    if lead == 0xED:
        return second <= 0x9F
    if lead == 0xF0:
        return second >= 0x90
    if lead == 0xF4:
        return second <= 0x8F
    return True
