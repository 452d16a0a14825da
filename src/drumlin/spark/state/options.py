"""The options of a state from a log: those of the source that make sense for it, and its own.

A state reads the whole log up to a moment, so start and end cannot be set.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from drumlin.spark.options import source_rows as rows
from drumlin.spark.options.keyword_options import read_options, with_keywords
from drumlin.spark.options.option import IT_IS_NO_STREAM, STATES
from drumlin.spark.options.option_values import OptionError
from drumlin.spark.options.options import SourceOptions
from drumlin.spark.options.portable import Portable

#: The columns of a state, unless others are chosen.
COLUMNS: Final = ("key", "value", "headers", "topic", "partition", "offset", "timestamp")

#: The largest cell of the shuffle: Spark's rows and Arrow's values hold one each.
_CELL_BYTES: Final = 8 << 20
#: A cell is a small part of a task's memory, so that a reducer reads little at a time.
_CELLS_PER_TASK: Final = 8

#: Options that a state refuses: it sets them by itself, or only a stream has them.
_REFUSED: Final = {row.name: row.not_of_states for row in rows.SOURCE_ROWS if row.not_of_states}
_OF_STREAMS: Final = {name for name, why in _REFUSED.items() if why == IT_IS_NO_STREAM}
_OF_STATES: Final = {row.key for row in rows.SOURCE_ROWS if row.directions == STATES}
#: Options that the reader of records does not get. Only leaders are read, as a follower's log may
#: have been cleaned further.
_LEFT_OUT: Final = {"kafka.client.rack", rows.SNAPSHOT.key, *_OF_STATES}


@dataclass(frozen=True, slots=True)
class StateOptions(Portable):
    """All options of a state, checked; picklable, as tasks get them too."""

    source: SourceOptions  # its columns are the result's
    topic: str
    reducers: int | None  # None: by the size of the log
    task_bytes: int
    allow_inexact: bool

    @property
    def cell_bytes(self) -> int:
        """The largest size of a shuffled cell, except for a single larger record."""
        return max(1, min(_CELL_BYTES, self.task_bytes // _CELLS_PER_TASK))

    def with_columns(self, columns: Sequence[str]) -> StateOptions:
        """These options, for a result with other columns."""
        return dataclasses.replace(self, source=self.reading(columns))

    def reading(self, columns: Sequence[str]) -> SourceOptions:
        """The source's options, to read these columns."""
        return dataclasses.replace(self.source, columns=tuple(columns))

    @classmethod
    def of(
        cls,
        topic: str,
        bootstrap: str,
        columns: Sequence[str] | str,
        options: Mapping[str, object],
    ) -> StateOptions:
        """Parse the options that a program passes to a function.

        Raises:
            OptionError: an option is invalid, unknown, or not for a state.
        """
        given = {**options, rows.COLUMNS_OPTION.name: columns}
        return cls.parse(read_options(topic, bootstrap, given, "state"))

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> StateOptions:
        """Check and convert the options, whose names are in lower case.

        Raises:
            OptionError: an option is invalid, or not for a state.
        """
        _refuse(options, _REFUSED)
        kept = {name: each for name, each in options.items() if name not in _LEFT_OUT}
        source = SourceOptions.parse({"kafka.isolation.level": "read_committed"} | kept)
        topics = source.subscription.topics
        if len(topics) != 1:
            raise OptionError(f"a state needs exactly one topic, not {', '.join(topics)}")
        return cls(
            source=source,
            topic=topics[0],
            reducers=rows.REDUCERS.find(options),
            task_bytes=rows.TASK_MEMORY.value(options),
            allow_inexact=rows.ALLOW_INEXACT.value(options),
        )


def with_state_keywords(
    options: Mapping[str, object],
    reducers: int | None,
    task_memory: int | str,
    allow_inexact: bool,
) -> dict[str, object]:
    """The options, merged with the keyword arguments for states.

    Raises:
        OptionError: an option is given in both ways; or `columns`, which only `snapshot` has, as
            an argument.
    """
    if any(name.lower() == rows.COLUMNS_OPTION.key for name in options):
        raise OptionError(
            "option 'columns' does not go with this function: the columns of changes, and of what "
            "is restored, are always the same"
        )
    return with_keywords(
        options,
        {
            rows.REDUCERS: reducers,
            rows.TASK_MEMORY: task_memory,
            rows.ALLOW_INEXACT: allow_inexact,
        },
    )


def stream_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options of a stream of changes, whose names are in lower case, without its start.

    Raises:
        OptionError: an option chooses what to read.
    """
    decided = {name: why for name, why in _REFUSED.items() if name not in _OF_STREAMS}
    ids, snapshot = rows.CHECKPOINT_TOPIC_IDS.name, rows.SNAPSHOT.name
    _refuse(options, decided | {snapshot: "it is a stream", ids: "it is set"})
    return {"kafka.isolation.level": "read_committed", **options, ids.lower(): "true"}


def without_stream_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options of a stream that apply to its initial state."""
    of_streams = {name.lower() for name in _OF_STREAMS}
    return {name: each for name, each in options.items() if name not in of_streams}


def without_state_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options of a stream without those of its initial state."""
    return {name: each for name, each in options.items() if name not in _OF_STATES}


def _refuse(options: Mapping[str, str], refused: Mapping[str, str]) -> None:
    for name, reason in refused.items():
        if name.lower() in options:
            raise OptionError(f"option '{name}' does not go with a state from a log: {reason}")
