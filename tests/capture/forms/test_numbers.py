"""Times and decimals as integers, beside Python's own where it has them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin.capture.forms import numbers
from drumlin.capture.values.plain import BadText

_EPOCH = datetime(1970, 1, 1)


@given(st.dates())
def test_days_of_python(day: date) -> None:
    assert numbers.days(day.isoformat()) == (day - date(1970, 1, 1)).days


@given(st.datetimes())
def test_timestamps_of_python(moment: datetime) -> None:
    text = moment.isoformat(" ")
    us = (moment - _EPOCH) // timedelta(microseconds=1)
    assert numbers.timestamp_us(text) == us
    assert numbers.timestamp_us(f"{text}+00") == us
    shortened = text.rstrip("0") if "." in text else text
    assert numbers.timestamp_us(shortened) == us
    zoned = numbers.zoned_iso(f"{shortened}+00", 6)
    assert datetime.fromisoformat(zoned) == moment.replace(tzinfo=UTC)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=3))
def test_decimals(number: Decimal) -> None:
    text = format(number, "f")
    scale = numbers.scale_of(text)
    held = int.from_bytes(numbers.big_endian(numbers.unscaled(text, scale)), "big", signed=True)
    assert Decimal(held).scaleb(-scale) == number
    assert numbers.unscaled(text, scale + 2) == 100 * held


@given(st.integers())
def test_the_fewest_bytes(number: int) -> None:
    data = numbers.big_endian(number)
    assert int.from_bytes(data, "big", signed=True) == number
    if len(data) > 1:
        assert int.from_bytes(data[1:], "big", signed=True) != number


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("0001-01-01 BC", -719528),
        ("0044-03-15 BC", -735160),
        ("4713-01-01 BC", -2440550),
        ("10000-01-01", 2932897),
        ("5874897-12-31", 2145042905),
        ("infinity", 2**31 - 1),
        ("-infinity", -(2**31)),
    ],
)
def test_days_beyond_python(text: str, days: int) -> None:
    assert numbers.days(text) == days
    if "inf" not in text:
        day, _, era = text.partition(" ")
        found = numbers.timestamp_us(f"{day} 00:00:00{era and ' ' + era}") if days < 10**8 else None
        assert found is None or found == days * 86_400_000_000


def test_the_range_of_timestamps() -> None:
    assert numbers.timestamp_us("infinity") == 2**63 - 1
    assert numbers.timestamp_us("-infinity") == -(2**63)
    assert numbers.timestamp_us("294247-01-10 04:00:54.775806") == 2**63 - 2
    with pytest.raises(BadText, match="out of the range"):
        numbers.timestamp_us("294276-12-31 23:59:59.999999+00")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12:00:00+00", "12:00:00Z"),
        ("12:00:00.5+02", "10:00:00.5Z"),
        ("00:30:00-03:30", "04:00:00Z"),
        ("23:30:00-01", "00:30:00Z"),
        ("00:00:00.000001+00:00:30", "23:59:30.000001Z"),
    ],
)
def test_times_with_an_offset(text: str, expected: str) -> None:
    assert numbers.time_in_utc(text) == expected


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("2024-02-29 12:00:00+00", 6, "2024-02-29T12:00:00.000000Z"),
        ("2024-02-29 12:00:00.5+00", 3, "2024-02-29T12:00:00.500Z"),
        ("2024-02-29 12:00:00+00", 0, "2024-02-29T12:00:00Z"),
        ("12024-01-01 00:00:00+00", 0, "+12024-01-01T00:00:00Z"),
        ("0001-12-31 00:00:00+00 BC", 0, "0000-12-31T00:00:00Z"),
        ("0044-03-15 00:00:00+00 BC", 0, "-0043-03-15T00:00:00Z"),
        ("infinity", 6, "infinity"),
    ],
)
def test_timestamps_as_java_writes_them(text: str, width: int, expected: str) -> None:
    assert numbers.zoned_iso(text, width) == expected


def test_money() -> None:
    assert numbers.cents("$1,234,567.05") == 123456705
    assert numbers.cents("-$0.01") == -1


@pytest.mark.parametrize("text", ["", "12", "1-2-3", "2024-02-30", "2024-13-01", "²024-01-01"])
def test_no_dates(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        numbers.days(text)


@pytest.mark.parametrize("text", ["", "1:2:3", "12:00", "12:00:00.1234567", "12:00:00.x", "a:b:c"])
def test_no_times(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        numbers.time_us(text)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "", ".", "1.234", "1.2.3", "one"])
def test_no_decimals_of_a_scale(text: str) -> None:
    with pytest.raises(ValueError, match="no decimal of scale 2"):
        numbers.unscaled(text, 2)
