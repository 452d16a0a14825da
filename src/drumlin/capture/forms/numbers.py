"""Converts the text of times and decimals to the integers of binary formats. Pure.

Days and microseconds count from 1970 in the Gregorian calendar, which is extended to earlier times
and beyond the year 9999. The infinities are the ends of the range, as inside PostgreSQL.
"""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache
from typing import Final

from drumlin.capture.values.plain import BadText

INT32_MIN: Final = -(2**31)
INT32_MAX: Final = 2**31 - 1
INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
_EPOCH: Final = date(1970, 1, 1).toordinal()
_FRACTION_DIGITS: Final = 6
_DAY_US: Final = 86_400_000_000
_CYCLE_YEARS: Final = 400
_CYCLE_DAYS: Final = 146_097
_DATE: Final = re.compile(r"(\d{4,7})-(\d\d)-(\d\d)")
_TIME: Final = re.compile(r"(\d\d):(\d\d):(\d\d)")
_OFFSET: Final = re.compile(r"([+-])(\d\d)(?::(\d\d))?(?::(\d\d))?")
_INFINITY: Final = ("infinity", "-infinity")


def days(text: str) -> int:
    """A date as days; an infinity as the end of 32 bits."""
    if text in _INFINITY:
        return INT32_MAX if text == "infinity" else INT32_MIN
    plain = text.removesuffix(" BC")
    found = _DATE.fullmatch(plain)
    if found is None:
        raise BadText(f"{text[:40]!r} is no date")
    return _days(int(found[1]), int(found[2]), int(found[3]), plain is not text)


@lru_cache(maxsize=1024)
def _midnight_us(day: str, is_before: bool) -> int:
    """The microseconds of a day's midnight. Cached, as rows of one time have few days."""
    found = _DATE.fullmatch(day)
    if found is None:
        raise BadText(f"{day[:40]!r} is no day of a timestamp")
    return _days(int(found[1]), int(found[2]), int(found[3]), is_before) * _DAY_US


def _days(year: int, month: int, day: int, is_before: bool) -> int:
    year = 1 - year if is_before else year
    # Python has only the years 1 to 9999; the calendar repeats every 400 years.
    cycles, year = divmod(year - 1, _CYCLE_YEARS)
    return cycles * _CYCLE_DAYS + date(year + 1, month, day).toordinal() - _EPOCH


def time_us(text: str) -> int:
    """The microseconds of a time of day; 24:00:00 is valid."""
    whole, _, fraction = text.partition(".")
    if not fraction:
        return _second_us(whole)
    if len(fraction) > _FRACTION_DIGITS or not fraction.isdecimal():
        raise BadText(f"{text[:40]!r} is no time")
    return _second_us(whole) + int(fraction.ljust(_FRACTION_DIGITS, "0"))


@lru_cache(maxsize=4096)
def _second_us(text: str) -> int:
    """The microseconds of a second. Cached, as rows written together have few seconds."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise BadText(f"{text[:40]!r} is no time")
    hours, minutes, seconds = found.groups()
    return ((int(hours) * 60 + int(minutes)) * 60 + int(seconds)) * 1_000_000


def timestamp_us(text: str) -> int:
    """The microseconds of a timestamp, in UTC if it has an offset; the end for an infinity.

    Raises:
        BadText: not a timestamp, or after the year 294246, which takes more than 64 bits.
    """
    if text in _INFINITY:
        return INT64_MAX if text == "infinity" else INT64_MIN
    plain = text.removesuffix(" BC").removesuffix("+00")
    day, _, time = plain.partition(" ")
    moment_us = _midnight_us(day, text.endswith(" BC")) + time_us(time)
    if not INT64_MIN < moment_us < INT64_MAX:
        raise BadText(f"{text!r} is out of the range of microseconds in 64 bits")
    return moment_us


def offset_s(text: str) -> int:
    """The seconds of a time zone's offset: `+02`, `-03:30`."""
    found = _OFFSET.fullmatch(text)
    if found is None:
        raise BadText(f"{text[:40]!r} is no offset")
    sign, hours, minutes, seconds = found.groups()
    size_s = (int(hours) * 60 + int(minutes or 0)) * 60 + int(seconds or 0)
    return -size_s if sign == "-" else size_s


def unscaled(text: str, scale: int) -> int:
    """A decimal times ten to the power of `scale`.

    Raises:
        BadText: it is NaN or infinite, or has more digits after the decimal point.
    """
    whole, _, fraction = text.partition(".")
    missing = scale - len(fraction)
    try:
        if missing < 0:
            raise ValueError
        number = int(whole + fraction)
    except ValueError:
        raise BadText(f"{text[:40]!r} is no decimal of scale {scale}") from None
    return number * 10**missing if missing else number


def cents(text: str) -> int:
    """Money as PostgreSQL writes it in the locale C, times a hundred."""
    return unscaled(text.replace("$", "", 1).replace(",", ""), 2)


def scale_of(text: str) -> int:
    """The number of digits after a decimal's point."""
    return len(text.partition(".")[2])


def big_endian(number: int) -> bytes:
    """The fewest bytes that hold a number in two's complement."""
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return number.to_bytes(size, "big", signed=True)


def zoned_iso(text: str, width: int) -> str:
    """A timestamp in UTC as ISO 8601 with `width` digits of a second, as Java writes it."""
    if text in _INFINITY:
        return text
    plain = text.removesuffix(" BC").removesuffix("+00")
    day, _, time = plain.partition(" ")
    year, _, rest = day.partition("-")
    if text.endswith(" BC"):
        before = int(year) - 1
        year = f"-{before:04}" if before else "0000"
    elif len(year) > 4:
        year = f"+{year}"
    whole, _, fraction = time.partition(".")
    digits = f".{fraction.ljust(width, '0')}" if width else ""
    return f"{year}-{rest}T{whole}{digits}Z"


def time_in_utc(text: str) -> str:
    """A time of day with an offset, in UTC, as Java writes it."""
    place = max(text.rfind("+"), text.rfind("-"))
    moment_us = (time_us(text[:place]) - offset_s(text[place:]) * 1_000_000) % _DAY_US
    seconds, us = divmod(moment_us, 1_000_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{us:06}".rstrip("0") if us else ""
    return f"{hours:02}:{minutes:02}:{seconds:02}{fraction}Z"
