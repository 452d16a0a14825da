"""The options of a state from a log: those of the source that make sense for it, and its own.

A state reads the whole log up to a moment, so it chooses by itself where to start and to end.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from drumlin.spark.options.keyword_options import as_text
from drumlin.spark.options.option_names import warn_of_unknown
from drumlin.spark.options.option_values import OptionError, boolean, positive, size_bytes
from drumlin.spark.options.options import SourceOptions
from drumlin.spark.options.portable import Portable

#: The columns of a state, unless others are chosen.
COLUMNS: Final = ("key", "value", "headers", "topic", "partition", "offset", "timestamp")

#: What a task holds before it hands out what it has.
_TASK_BYTES: Final = 64 << 20
#: The largest cell of the shuffle: Spark's rows and Arrow's values hold one each.
_CELL_BYTES: Final = 8 << 20
#: A cell is a small part of what a task holds, so that a reducer takes in little at a time.
_CELLS_PER_TASK: Final = 8

#: What a state decides by itself.
_DECIDED: Final = {
    "assign": "the topic is named elsewhere",
    "subscribepattern": "the topic is named elsewhere",
    **dict.fromkeys(
        ("startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp"),
        "it follows from the moment where to start",
    ),
    **dict.fromkeys(
        ("endingoffsets", "endingtimestamp", "endingoffsetsbytimestamp"),
        "it follows from the moment where to end",
    ),
    "failondataloss": "with records missing it would be wrong, so it fails",
}
#: What only a stream has.
_OF_STREAMS: Final = dict.fromkeys(
    (
        "maxoffsetspertrigger",
        "minoffsetspertrigger",
        "maxbytespertrigger",
        "maxtriggerdelay",
        "commitoffsetstogroup",
        "checkpointtopicids",
    ),
    "it is no stream",
)


@dataclass(frozen=True, slots=True)
class StateOptions(Portable):
    """What to read and how to divide it; picklable, as tasks get it too."""

    source: SourceOptions  # its columns are those of the result
    topic: str
    reducers: int | None  # None: as many as the size of the log asks for
    task_bytes: int
    allow_inexact: bool

    @property
    def cell_bytes(self) -> int:
        """The size of the largest cells that are shuffled, but for a single larger record."""
        return max(1, min(_CELL_BYTES, self.task_bytes // _CELLS_PER_TASK))

    def with_columns(self, columns: Sequence[str]) -> StateOptions:
        """The same, for a result with these columns."""
        return dataclasses.replace(self, source=self.reading(columns))

    def reading(self, columns: Sequence[str]) -> SourceOptions:
        """The source's options, to read these columns."""
        return dataclasses.replace(self.source, columns=tuple(columns))

    @classmethod
    def of(
        cls,
        topic: str,
        bootstrap_servers: str,
        columns: Sequence[str] | str,
        options: Mapping[str, object],
    ) -> StateOptions:
        """The options that a program gives to a function.

        Raises:
            OptionError: they are invalid, or not for a state.
        """
        given = as_text(topic, bootstrap_servers, {**options, "columns": columns})
        warn_of_unknown(given)
        return cls.parse(given)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> StateOptions:
        """Check and convert the options, whose names are in lower case.

        Raises:
            OptionError: they are invalid, or not for a state.
        """
        _refuse(options, _DECIDED | _OF_STREAMS)
        # A follower may have been cleaned further than the leader: only the leader is read.
        left_out = ("kafka.client.rack", "snapshot")
        kept = {name: each for name, each in options.items() if name not in left_out}
        source = SourceOptions.parse({"kafka.isolation.level": "read_committed"} | kept)
        topics = source.subscription.topics
        if len(topics) != 1:
            raise OptionError(f"a state is that of one topic, not of {', '.join(topics)}")
        return cls(
            source=source,
            topic=topics[0],
            reducers=positive(options, "reducers"),
            task_bytes=size_bytes(options, "taskMemory", _TASK_BYTES),
            allow_inexact=boolean(options, "allowInexact", default=False),
        )


def stream_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options of a stream of changes, whose names are in lower case, without its start.

    Raises:
        OptionError: they say what to read.
    """
    _refuse(options, _DECIDED | {"snapshot": "it is a stream", "checkpointtopicids": "it is set"})
    return {"kafka.isolation.level": "read_committed", **options, "checkpointtopicids": "true"}


def without_stream_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options of a stream that mean something for the state with which it begins."""
    return {name: each for name, each in options.items() if name not in _OF_STREAMS}


def _refuse(options: Mapping[str, str], refused: Mapping[str, str]) -> None:
    for name, reason in refused.items():
        if name in options:
            raise OptionError(f"option '{name}' does not go with a state from a log: {reason}")
