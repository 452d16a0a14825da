"""Starts that a cluster and the moment decide: a group's offsets, a time before now, the last ones.

Owns their form in the option `startingOffsets`. What they stand for is resolved once for a query,
by `planning/start_offsets.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from drumlin.spark.options.offsets import WORDS, OffsetLimit, parse_offsets
from drumlin.spark.options.option_values import duration_ms
from drumlin.spark.options.portable import Portable

_GROUP: Final = "group:"
_AGO: Final = re.compile(r"(\d{1,9} *[a-z]+) +ago", re.ASCII)
_WORD_OF_A_UNIT: Final = re.compile(r"(second|minute|hour|day)s?$")
_LAST: Final = re.compile(r"last +(\d{1,18})", re.ASCII)
_EXPECTED: Final = (
    "expected earliest, latest, '10 minutes ago', 'last 100', group:NAME or JSON as "
    '{"topicA":{"0":23,"1":-1},"topicB":"earliest"}'
)


@dataclass(frozen=True, slots=True)
class GroupStart(Portable):
    """The offsets that a consumer group has committed."""

    group: str


@dataclass(frozen=True, slots=True)
class TimeAgo(Portable):
    """The first records that are not older than this."""

    duration_ms: int


@dataclass(frozen=True, slots=True)
class LastOffsets(Portable):
    """The last offsets of each partition, as many as there are."""

    count: int


#: The start of a query.
Start: TypeAlias = OffsetLimit | GroupStart | TimeAgo | LastOffsets


def parse_start(text: str) -> Start:
    """A start as a user wrote it.

    Raises:
        ValueError: the text has another form.
    """
    given = text.strip()
    if given.startswith(_GROUP):
        group = given.removeprefix(_GROUP).strip()
        if not group:
            raise ValueError(f"names no group: {text!r}")
        return GroupStart(group)
    words = given.lower()
    if words in WORDS:
        return OffsetLimit(WORDS[words])
    ago, last = _AGO.fullmatch(words), _LAST.fullmatch(words)
    if ago:
        return TimeAgo(duration_ms(_WORD_OF_A_UNIT.sub(_first_letter, ago[1])))
    if last:
        return LastOffsets(int(last[1]))
    if not given.startswith(("{", "[", '"')):
        raise ValueError(f"{_EXPECTED}, got {text!r}")
    return parse_offsets(text)


def _first_letter(unit: re.Match[str]) -> str:
    return unit[1][0]
