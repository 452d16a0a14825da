"""Converts the values of a row in the binlog to the text that the server would show. Pure.

The text is that of the column's kind, and that of a `SELECT` in a snapshot, so a row has the same
form wherever it is read.
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Callable, Sequence
from typing import Final

from drumlin.capture.binlog_events.charsets import Decode

#: Reads a value: its text, and the position after it.
Read = Callable[[memoryview, int], tuple[str, int]]

_EPOCH: Final = datetime.datetime(1970, 1, 1)
#: The bytes that 0 to 9 digits of a decimal take.
_DIGIT_BYTES: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def integer(size: int, is_signed: bool) -> Read:
    def read(data: memoryview, at: int) -> tuple[str, int]:
        end = at + size
        return str(int.from_bytes(data[at:end], "little", signed=is_signed)), end

    return read


def real(data: memoryview, at: int) -> tuple[str, int]:
    return shortest_real(*struct.unpack_from("<f", data, at)), at + 4


def double(data: memoryview, at: int) -> tuple[str, int]:
    return repr(*struct.unpack_from("<d", data, at)), at + 8


def shortest_real(value: float) -> str:
    """The shortest text that reads as the same number of four bytes."""
    for digits in range(6, 9):
        text = f"{value:.{digits}g}"
        if struct.pack("<f", float(text)) == struct.pack("<f", value):
            return repr(float(text))
    return repr(float(f"{value:.9g}"))


def year(data: memoryview, at: int) -> tuple[str, int]:
    return str(1900 + data[at] if data[at] else 0), at + 1


def bits(size: int) -> Read:
    def read(data: memoryview, at: int) -> tuple[str, int]:
        return str(int.from_bytes(data[at : at + size], "big")), at + size

    return read


def decimal(precision: int, scale: int) -> Read:
    whole_full, whole_rest = divmod(precision - scale, 9)
    part_full, part_rest = divmod(scale, 9)
    # The number of digits in each group of bytes.
    whole = ([whole_rest] if whole_rest else []) + [9] * whole_full
    part = [9] * part_full + ([part_rest] if part_rest else [])
    size = sum(_DIGIT_BYTES[each] for each in (*whole, *part))

    def read(data: memoryview, at: int) -> tuple[str, int]:
        found = bytearray(data[at : at + size])
        is_negative = not found[0] & 0x80
        found[0] ^= 0x80
        if is_negative:
            found = bytearray(each ^ 0xFF for each in found)
        digits, position = [], 0
        for count in (*whole, *part):
            end = position + _DIGIT_BYTES[count]
            digits.append(f"{int.from_bytes(found[position:end], 'big'):0{count}d}")
            position = end
        before = "".join(digits[: len(whole)]).lstrip("0") or "0"
        after = "".join(digits[len(whole) :])
        text = f"{before}.{after}" if after else before
        return f"-{text}" if is_negative else text, at + size

    return read


def date(data: memoryview, at: int) -> tuple[str, int]:
    value = int.from_bytes(data[at : at + 3], "little")
    return f"{value >> 9:04d}-{value >> 5 & 15:02d}-{value & 31:02d}", at + 3


def date_and_time(digits: int) -> Read:
    size = 5 + (digits + 1) // 2

    def read(data: memoryview, at: int) -> tuple[str, int]:
        value = int.from_bytes(data[at : at + 5], "big") - (1 << 39)
        days, clock = value >> 17, value & 0x1FFFF
        year, month = divmod(days >> 5, 13)
        text = f"{year:04d}-{month:02d}-{days & 31:02d} {_clock(clock)}"
        return text + _fraction(data[at + 5 : at + size], digits), at + size

    return read


def moment(digits: int) -> Read:
    """A reader of TIMESTAMP values, in UTC."""
    size = 4 + (digits + 1) // 2

    def read(data: memoryview, at: int) -> tuple[str, int]:
        seconds = int.from_bytes(data[at : at + 4], "big")
        fraction = _fraction(data[at + 4 : at + size], digits)
        if seconds == 0:
            return f"0000-00-00 00:00:00{fraction}+00", at + size
        time = _EPOCH + datetime.timedelta(seconds=seconds)
        return f"{time:%Y-%m-%d %H:%M:%S}{fraction}+00", at + size

    return read


def time(digits: int) -> Read:
    more = (digits + 1) // 2
    size = 3 + more

    def read(data: memoryview, at: int) -> tuple[str, int]:
        value = int.from_bytes(data[at : at + size], "big") - (0x800000 << 8 * more)
        sign, value = ("-", -value) if value < 0 else ("", value)
        fraction = (value & ((1 << 8 * more) - 1)).to_bytes(more, "big")
        text = _clock(value >> 8 * more)
        return f"{sign}{text}{_fraction(memoryview(fraction), digits)}", at + size

    return read


def _clock(value: int) -> str:
    return f"{value >> 12:02d}:{value >> 6 & 63:02d}:{value & 63:02d}"


def _fraction(data: memoryview, digits: int) -> str:
    if not digits:
        return ""
    return "." + f"{int.from_bytes(data, 'big'):0{2 * len(data)}d}"[:digits]


def enumerated(size: int, names: Sequence[str]) -> Read:
    def read(data: memoryview, at: int) -> tuple[str, int]:
        number = int.from_bytes(data[at : at + size], "little")
        return names[number - 1] if number else "", at + size

    return read


def set_of(size: int, names: Sequence[str]) -> Read:
    def read(data: memoryview, at: int) -> tuple[str, int]:
        mask = int.from_bytes(data[at : at + size], "little")
        found = [name for place, name in enumerate(names) if mask >> place & 1]
        return ",".join(found), at + size

    return read


def text(length_size: int, decode: Decode) -> Read:
    def read(data: memoryview, at: int) -> tuple[str, int]:
        start = at + length_size
        end = start + int.from_bytes(data[at:start], "little")
        return decode(_whole(data, start, end)), end

    return read


def binary(length_size: int, size_min: int = 0) -> Read:
    """A reader of binary values. `size_min`: n for BINARY(n): the binlog omits trailing zeros."""

    def read(data: memoryview, at: int) -> tuple[str, int]:
        start = at + length_size
        end = start + int.from_bytes(data[at:start], "little")
        return hexadecimal(_whole(data, start, end).ljust(size_min, b"\0")), end

    return read


def uuid(data: memoryview, at: int) -> tuple[str, int]:
    """A UUID of 16 bytes: the binlog omits trailing zeros."""
    end = at + 1 + data[at]
    text = _whole(data, at + 1, end).ljust(16, b"\0").hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}", end


def hexadecimal(data: bytes) -> str:
    return f"\\x{data.hex()}"


def _whole(data: memoryview, start: int, end: int) -> bytes:
    if end > len(data):
        raise IndexError("a value is cut short")
    return bytes(data[start:end])
