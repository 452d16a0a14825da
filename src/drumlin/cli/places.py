"""Places in a log as a person writes them: `beginning`, `end`, offsets, times, "the last ten"."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from drumlin.client.client import Client

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_AGO: Final = re.compile(r"(\d+)([smhd])")

HELP: Final = (
    "beginning, end, an offset, -N (N before the end), a time as 2013-07-04T12:00 "
    "(local unless it says otherwise), as 15m, 2h, 3d (ago), or as @MILLISECONDS."
)


@dataclass(frozen=True, slots=True)
class Place:
    """A place that means an offset in every partition."""

    name: str | None = None  # "earliest", "latest"
    offset: int | None = None
    before_end: int | None = None
    time: datetime | None = None

    def in_partitions(
        self, client: Client, topic: str, partitions: Iterable[int]
    ) -> dict[int, int]:
        """The offset that it is in each partition."""
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
    """Read what a person has written.

    Raises:
        click.BadParameter: it means nothing.
    """
    if text in _NAMES:
        return _NAMES[text]
    if text.isdigit():
        return Place(offset=int(text))
    if text[:1] == "-" and text[1:].isdigit():
        return Place(before_end=int(text[1:]))
    if text[:1] == "@" and text[1:].isdigit():
        return Place(time=datetime.fromtimestamp(int(text[1:]) / 1000, UTC))
    ago = _AGO.fullmatch(text)
    if ago:
        seconds = int(ago[1]) * _SECONDS[ago[2]]
        return Place(time=datetime.now(UTC) - timedelta(seconds=seconds))
    try:
        # A time without a zone is the clock on the user's wall.
        return Place(time=datetime.fromisoformat(text).astimezone())
    except ValueError:
        raise click.BadParameter(f"{text!r} is no place in a log: {HELP}") from None
