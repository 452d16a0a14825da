"""Places in a log as users name them (offsets, times, words), and their checks.

An int is always an offset, never a time: a time is an aware `datetime` or `Milliseconds`. A time
means the first record at or after it; as the point of a state, it includes records of its
millisecond. Sends no requests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, TypeAlias, TypeGuard

from drumlin.client import arguments

OFFSET_MAX: Final = 2**63 - 1
#: The largest time that a record's timestamp can still exceed.
_MILLISECONDS_MAX: Final = OFFSET_MAX - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_NAMED: Final = {"latest": -1, "earliest": -2, "max_timestamp": -3}
_ENDS_OF_A_LOG: Final = ("earliest", "latest")


@dataclass(frozen=True, order=True, slots=True)
class Milliseconds:
    """A time in milliseconds since 1970, UTC. (A plain int would be an offset.)

    Raises:
        TypeError, ValueError: not a whole number, or negative.
    """

    since_epoch: int

    def __post_init__(self) -> None:
        number = arguments.whole_number("Milliseconds", self.since_epoch, 0, _MILLISECONDS_MAX)
        object.__setattr__(self, "since_epoch", number)


#: A time, which means the first record at or after it.
Time: TypeAlias = datetime | Milliseconds
#: The start or end of reading: a word, an offset, or a time.
Place: TypeAlias = Literal["earliest", "latest"] | int | Time
#: An end: an offset, or the end of the log.
End: TypeAlias = Literal["latest"] | int
#: A place whose offset a broker can look up. "latest" is the end offset, after the last record.
OffsetSpec: TypeAlias = Literal["earliest", "latest", "max_timestamp"] | Time
#: A point in a topic's history: a time, including its records, or an end offset by partition.
Point: TypeAlias = Time | Mapping[int, int]


def is_time(place: object) -> TypeGuard[Time]:
    return isinstance(place, datetime | Milliseconds)


def first_ms(time: Time) -> int:
    """The first millisecond since 1970 that is not before `time`.

    Raises:
        ValueError: the time has no time zone.
    """
    if isinstance(time, Milliseconds):
        return time.since_epoch
    return -((_EPOCH - _with_zone(time)) // _MILLISECOND)


def last_ms(time: Time) -> int:
    """The last millisecond since 1970 that is not after `time`.

    Raises:
        ValueError: the time has no time zone.
    """
    if isinstance(time, Milliseconds):
        return time.since_epoch
    return (_with_zone(time) - _EPOCH) // _MILLISECOND  # exact, as `timestamp()` is not


def _with_zone(time: datetime) -> datetime:
    if time.tzinfo is None:
        raise ValueError(f"{time!r} has no time zone")
    return time


def timestamp_of(spec: OffsetSpec, name: str = "at") -> int:
    """The timestamp of `spec` in ListOffsets.

    Raises:
        TypeError: an int, or another type.
        ValueError: an unknown name, a time before 1970, or a datetime without a time zone.
    """
    if isinstance(spec, str):
        arguments.one_of(name, spec, _NAMED, "a datetime or Milliseconds")
        return _NAMED[spec]
    _check_time(name, spec, "'earliest', 'latest', 'max_timestamp', a datetime or Milliseconds")
    time_ms = first_ms(spec)
    if time_ms < 0:
        raise ValueError(f"{name} {spec}: there are no times before 1970 in a log")
    return time_ms


def check_place(name: str, place: object) -> None:
    """Check a `Place`.

    Raises:
        TypeError, ValueError: the value is invalid.
    """
    if isinstance(place, str):
        arguments.one_of(name, place, _ENDS_OF_A_LOG, "an offset, a datetime or Milliseconds")
    elif isinstance(place, bool) or not isinstance(place, int):
        _check_time(name, place, "'earliest', 'latest', an offset, a datetime or Milliseconds")
    else:
        arguments.whole_number(name, place, 0, OFFSET_MAX)


def check_places(name: str, given: object) -> None:
    """Check a `Place`, or one for each partition.

    Raises:
        TypeError, ValueError: the value is invalid.
    """
    if not isinstance(given, Mapping):
        check_place(name, given)
        return
    for partition, place in given.items():
        arguments.whole_number(f"{name}: partition", partition, 0, 2**31 - 1)
        check_place(f"{name}[{partition}]", place)


def check_ends(name: str, given: object) -> None:
    """Check an `End`, or one for each partition.

    Raises:
        TypeError, ValueError: the value is invalid.
    """
    for end in given.values() if isinstance(given, Mapping) else (given,):
        if end != "latest" and (isinstance(end, bool) or not isinstance(end, int)):
            raise TypeError(f"{name} {arguments.shown(end)}: expected 'latest' or an offset")
    check_places(name, given)


def check_partitions(name: str, named: Collection[int], read: Iterable[int]) -> None:
    """Check that a mapping has places for exactly the partitions that are read.

    Raises:
        ValueError: the mapping has other partitions.
    """
    wanted = set(read)
    if set(named) != wanted:
        raise ValueError(f"{name} has partitions {sorted(named)}, but {sorted(wanted)} are read")


def check_point(name: str, at: object) -> None:
    """Check a `Point`, or None.

    Raises:
        TypeError, ValueError: the value is invalid.
    """
    if isinstance(at, Mapping):
        for partition, offset in at.items():
            arguments.whole_number(f"{name}: partition", partition, 0, 2**31 - 1)
            arguments.whole_number(f"{name}[{partition}]", offset, 0, OFFSET_MAX)
    elif at is not None:
        expected = "a datetime, Milliseconds, or an end offset by partition, as {0: 100, 1: 200}"
        _check_time(name, at, expected)


def _check_time(name: str, time: object, expected: str) -> None:
    if isinstance(time, Milliseconds):
        return
    if not isinstance(time, datetime):
        is_number = isinstance(time, int) and not isinstance(time, bool)
        reason = ": an int is an offset, not a time" if is_number else ""
        raise TypeError(f"{name} {arguments.shown(time)}{reason}: expected {expected}")
    if time.tzinfo is None:
        raise ValueError(f"{name} {time!r} has no time zone")
