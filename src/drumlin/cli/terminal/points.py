"""Points of a topic's history as a user types them: places in the log, or many offsets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import click

from drumlin.cli.terminal.commands import Option
from drumlin.cli.terminal.places import END, TIMES, Place, parse_place

if TYPE_CHECKING:
    from drumlin.client.client import Client
    from drumlin.client.places import Point

_BY_PARTITION: Final = re.compile(r"\d+:\d+(,\d+:\d+)*")

HELP: Final = (
    f"end; {TIMES}, whose records count too; or what to read up to, not including it: "
    "PARTITION:OFFSET[,…], an offset for all partitions, or -N (N before the end)."
)

AllowInexact = Annotated[
    bool,
    Option(
        "--allow-inexact",
        help="Take what is left of a point at which a cleaner has removed records since; "
        "otherwise it is refused.",
    ),
]


@dataclass(frozen=True, slots=True)
class PointArgument:
    """A point as it was typed, not yet resolved by a cluster."""

    place: Place = END
    offsets: dict[int, int] | None = None

    def of(self, client: Client, topic: str, partitions: Sequence[int]) -> Point | None:
        """The point in these partitions, in the form that the client takes."""
        if self.offsets is not None:
            return self.offsets
        if self.place == END:
            return None
        return self.place.time or self.place.in_partitions(client, topic, partitions)


def parse_point(text: str) -> PointArgument:
    """Parse a point as a user types it.

    Raises:
        click.BadParameter: the text is not a point.
    """
    if not _BY_PARTITION.fullmatch(text):
        try:
            return PointArgument(parse_place(text))
        except click.BadParameter:
            raise click.BadParameter(f"{text!r} is no point: {HELP}") from None
    pairs = [each.split(":") for each in text.split(",")]
    offsets = {int(partition): int(offset) for partition, offset in pairs}
    if len(offsets) < len(pairs):
        raise click.BadParameter(f"{text!r} has two offsets of one partition")
    return PointArgument(offsets=offsets)
