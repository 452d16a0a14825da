"""Places in a log as a user types them: `beginning`, `end`, offsets, times, "the last ten"."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import click

from drumlin.records.batch.varint import INT64_MAX

if TYPE_CHECKING:
    from drumlin.client.client import Client

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_AGO: Final = re.compile(r"-?([0-9]{1,19})([smhd])")
_OFFSET: Final = re.compile(r"[0-9]{1,19}")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

#: The one way of saying a time, in every command.
TIMES: Final = (
    "a time as 2013-07-04T12:00 (local time unless it names a zone), as -15m, -2h, -3d (ago), "
    "or as @MILLISECONDS"
)
HELP: Final = f"beginning, end, an offset, -N (N before the end), or {TIMES}."


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a log, which stands for one offset in every partition."""

    name: str | None = None  # "earliest", "latest"
    offset: int | None = None
    before_end: int | None = None
    time: datetime | None = None

    def in_partitions(
        self, client: Client, topic: str, partitions: Iterable[int]
    ) -> dict[int, int]:
        """The offset of this place in each partition."""
        if self.offset is not None:
            return dict.fromkeys(partitions, self.offset)
        if self.before_end is None:
            found = client.offsets(topic, self.time or self.name)  # type: ignore[arg-type]
            return {partition: found[partition] for partition in partitions}
        starts, ends = client.offsets(topic, "earliest"), client.offsets(topic, "latest")
        return {each: max(ends[each] - self.before_end, starts[each]) for each in partitions}


BEGINNING: Final = Place(name="earliest")
END: Final = Place(name="latest")
_NAMES: Final = {"beginning": BEGINNING, "earliest": BEGINNING, "end": END, "latest": END}


def parse_place(text: str) -> Place:
    """Parse a place as a user types it.

    Raises:
        click.BadParameter: the text is not a place.
    """
    if text in _NAMES:
        return _NAMES[text]
    offset = parse_offset(text)
    if offset is not None:
        return Place(offset=offset)
    before_end = parse_offset(text[1:]) if text[:1] == "-" else None
    if before_end is not None:
        return Place(before_end=before_end)
    try:
        return Place(time=_parse_time(text))
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{text!r} does not name a place in a log, which is {HELP}"
        ) from None


def parse_time(text: str) -> datetime:
    """Parse a time as a user types it.

    Raises:
        click.BadParameter: the text is not a time.
    """
    try:
        return _parse_time(text)
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{text!r} is not {TIMES}") from None


def parse_offset(text: str) -> int | None:
    """The text as an offset; None if it is not one."""
    offset = int(text) if _OFFSET.fullmatch(text) else INT64_MAX + 1
    return offset if offset <= INT64_MAX else None


def _parse_time(text: str) -> datetime:
    """
    Raises:
        ValueError, OverflowError: the text is not a time, or the time is out of range.
    """
    since_epoch = parse_offset(text[1:]) if text[:1] == "@" else None
    if since_epoch is not None:
        return _EPOCH + timedelta(milliseconds=since_epoch)
    ago = _AGO.fullmatch(text)
    if ago:
        return datetime.now(UTC) - timedelta(seconds=int(ago[1]) * _SECONDS[ago[2]])
    # A time without a zone is local time.
    return datetime.fromisoformat(text).astimezone()
