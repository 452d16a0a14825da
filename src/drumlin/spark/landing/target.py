"""What a place must be able to do that a topic is landed in. One file for each kind of place.

Records and position become visible together, in one atomic step of the target's own. So whatever
is killed, the next run reads the position and goes on there: what is not in the target was not
landed, and what is in it is never landed again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

from drumlin.client.errors import ClientError

if TYPE_CHECKING:  # too costly for a session that only looks for data sources
    from pyspark.sql import DataFrame

    from drumlin.spark.options.transform import BatchFunction

#: Every record is a row, or every key is one, with its last value.
Mode: TypeAlias = Literal["append", "upsert"]
MODES: tuple[Mode, ...] = ("append", "upsert")


class LandingRefused(ClientError):
    """Nothing was landed, as the target or the log is not what it has to be."""


class OtherTopic(LandingRefused):
    """The target is of another topic than the one that is to be landed."""


class RecordsLost(LandingRefused):
    """The log no longer has, or does not have, what follows the target's position."""


class OtherRun(LandingRefused):
    """Another run lands into the same target at this moment."""


class Source(NamedTuple):
    """A topic, and which one of that name; "" where brokers know no ids."""

    topic: str
    topic_id: str
    partitions: tuple[int, ...]


class Position(NamedTuple):
    """How far a target is, in which topic."""

    topic: str
    topic_id: str
    #: The first offset of each partition that the target does not hold.
    offsets: Mapping[int, int]
    #: When the log was asked for the end that the target has reached since, or else for the one of
    #: its first batch. None: nobody said.
    at_end_ms: int | None = None


class Batch(Protocol):
    """Records that are to be added: those of a range of offsets in each partition."""

    def frame(self, columns: str) -> DataFrame:
        """The records, with these columns of `format("drumlin")`."""

    def map(self, columns: str, function: BatchFunction, schema: str) -> DataFrame:
        """What `function` gives in the workers that read the records, which Spark does not see."""

    def confirm(self) -> None:
        """To be called between reading and committing.

        Raises:
            OtherTopic: the topic was deleted and created again meanwhile.
            RecordsLost: tombstones may be gone that were to be read.
        """


class Target(Protocol):
    """A place for one topic. Its methods are called in the driver."""

    def position(self, partitions: Collection[int], /) -> Position | None:
        """As it is now; None where nothing was ever landed. Makes and changes nothing.

        Raises:
            LandingRefused: there is something else in its place.
        """

    def add(self, batch: Batch, position: Position) -> None:
        """Show the batch's records and this position, in one atomic step.

        The batch begins at the position that was asked for last.

        Raises:
            OtherRun: another run has added something since.
            OtherTopic, RecordsLost: of `batch.confirm()`.
        """

    def close(self) -> None:
        """Let the target go; what was added stays."""


def check_topic(held: Position, now: Source, where: str) -> None:
    """
    Raises:
        OtherTopic: `held` is a position in a topic that is not the one of now.
    """
    if (held.topic, held.topic_id) != (now.topic, now.topic_id):
        raise OtherTopic(
            f"{where} is of topic {held.topic!r} with the id {held.topic_id!r}, and this is topic "
            f"{now.topic!r} with the id {now.topic_id!r}: it is another one, or was deleted and "
            "created again. Nothing was landed. A target is of one topic: land this one into "
            "another place"
        )
