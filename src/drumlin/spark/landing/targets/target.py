"""The interface of landing targets. Each kind of target has its own file.

A target makes records and position visible together, in one atomic step. So after a kill at any
moment, the next run reads the position and continues there: no record is skipped or landed twice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from drumlin.client.errors import ClientError

if TYPE_CHECKING:  # too costly for a session that only looks for data sources
    from pyspark.sql import DataFrame

    from drumlin.spark.landing.rows.rows import Rows
    from drumlin.spark.options.transform import BatchFunction


class LandingRefused(ClientError):
    """Nothing was landed, because the target or the log is not as expected."""


class OtherTopic(LandingRefused):
    """The target belongs to another topic."""


class RecordsLost(LandingRefused):
    """Records after the target's position are no longer in the log, or not (yet) in it."""


class OtherRun(LandingRefused):
    """Another run lands into the same target at this moment."""


class StoreUnavailable(ClientError, OSError):
    """An object store cannot be reached, or does not answer in time."""


class Source(NamedTuple):
    """A topic. `topic_id` tells recreated topics apart; "" if the brokers have no topic ids."""

    topic: str
    topic_id: str
    partitions: tuple[int, ...]


class Position(NamedTuple):
    """A target's position in its topic."""

    topic: str
    topic_id: str
    #: The first offset of each partition that the target does not hold.
    offsets: Mapping[int, int]
    #: A time before which no tombstone was missed: the time of the latest request for end offsets
    #: that the target has reached since, or of that for its first batch. None: unknown.
    at_end_ms: int | None = None


class Added(NamedTuple):
    """The rows and bytes that a commit has added to a target, for display."""

    #: Rows that were added or changed.
    rows: int
    #: The size of the files that hold them, or of the rows as they were sent.
    size_bytes: int


NOTHING: Final = Added(0, 0)


class Batch(Protocol):
    """The records to add: a range of offsets in each partition."""

    @property
    def rows(self) -> Rows:
        """The conversion of these records to rows; later batches may have more columns."""

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole log, so that its rows replace all rows of the target.

        In mode `upsert` only.
        """

    def map(self, function: BatchFunction, schema: str) -> DataFrame:
        """The results of `function`, which gets the rows in the workers, without the JVM."""

    def confirm(self) -> None:
        """Check that the batch is still valid. Call it after reading and before committing.

        Raises:
            OtherTopic: the topic was deleted and recreated meanwhile.
            RecordsLost: tombstones in the batch may have been removed before they were read.
        """


class Target(Protocol):
    """A table or folder for one topic. Its methods are called in the driver."""

    def position(self, partitions: Collection[int], /) -> Position | None:
        """The current position; None if nothing was ever landed. Read-only.

        Raises:
            LandingRefused: there is something in the target's place that no landing has created.
        """

    def complete(self) -> None:
        """Complete an unfinished step of a killed run. Call after `position`, before `add`."""

    def add(self, batch: Batch, position: Position) -> Added:
        """Commit the batch's rows and this position, in one atomic step.

        The batch must begin at the result of the last call of `position`.

        Raises:
            OtherRun: another run has committed since that call.
            OtherTopic, RecordsLost: as from `batch.confirm()`.
            LandingRefused: the target's columns have other types than those of the rows.
        """

    def compact(self) -> None:
        """Merge small files, which changes no row. Call after `add`."""

    def close(self) -> None:
        """Release connections and locks; everything committed stays."""


def check_topic(held: Position, now: Source, where: str) -> None:
    """
    Raises:
        OtherTopic: `held` is a position in another topic than `now`.
    """
    if (held.topic, held.topic_id) != (now.topic, now.topic_id):
        raise OtherTopic(
            f"{where} is of topic {held.topic!r} with the id {held.topic_id!r}, and this is topic "
            f"{now.topic!r} with the id {now.topic_id!r}: it is another one, or was deleted and "
            "created again. Nothing was landed. A target is of one topic: land this one into "
            "another place"
        )
