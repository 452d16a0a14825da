"""The protocol's requests to a cluster: one value per request.

The protocol consists of generators that yield these and are sent the answers. A failure is thrown
into them as `RequestFailed`. So the same code runs against a cluster and against a model of one,
and tests can end its process between any two requests.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from drumlin.spark.writing.protocol.transactions import Opened

T = TypeVar("T")


class FetchAnchor(NamedTuple):
    """-> Anchor | None: the offset that the group has committed for partition 0 of the topic.

    `is_stable`: wait while a transaction that is about to end may change it.
    """

    group: str
    topic: str
    is_stable: bool


class ReadRecord(NamedTuple):
    """-> bytes | None: the value at an offset of partition 0, if it has this key."""

    topic: str
    offset: int
    key: str


class FindRecord(NamedTuple):
    """-> bytes | None: the last committed value with this key in the whole topic.

    The topic must exist: prepare it first.
    """

    topic: str
    key: str


class PrepareTopic(NamedTuple):
    """-> None: create the decision topic if it is missing; refuse one that deletes by age."""

    topic: str


class Description(NamedTuple):
    """A transactional id as its coordinator knows it; states as in Kafka: "Ongoing", ..."""

    state: str
    producer_id: int
    epoch: int
    start_ms: int = -1  # of the transaction, by the broker's clock
    timeout_ms: int = -1

    def is_of(self, opened: Opened) -> bool:
        """Whether the id was not initialised again since, and has not timed out."""
        return (self.producer_id, self.epoch) == opened[1:]


class Describe(NamedTuple):
    """-> dict[str, Description]: for those of the ids that their coordinators know."""

    transactional_ids: tuple[str, ...]


class ListOpen(NamedTuple):
    """-> tuple[str, ...]: the cluster's ids with this prefix that have an open transaction."""

    prefix: str


class InitTask(NamedTuple):
    """-> Opened: InitProducerId for a task."""

    transactional_id: str
    timeout_ms: int | None


class Flush(NamedTuple):
    """-> None: all rows of a task's transaction are acknowledged. It stays open."""

    opened: Opened


class AbortOwn(NamedTuple):
    """-> None: a task gives up its own transaction."""

    opened: Opened


#: "committed", "aborted": it certainly was, or will be; "unknown": no coordinator knows the id
#: or its transaction any more, or the id was initialised again since; "unanswered": ask again
#: later.
Outcome: TypeAlias = Literal["committed", "aborted", "unknown", "unanswered"]


class CommitAll(NamedTuple):
    """-> dict[Opened, Outcome]: EndTxn(commit) for each, tried for as long as a call may take."""

    opened: tuple[Opened, ...]


class FenceAll(NamedTuple):
    """-> int: InitProducerId on each id, which aborts its open transaction; how many succeeded.

    A transaction whose coordinator cannot be reached is left to time out.
    """

    transactional_ids: tuple[str, ...]


class InitDriver(NamedTuple):
    """-> Opened: InitProducerId of the driver's id: this fences older drivers."""

    transactional_id: str


class Append(NamedTuple):
    """-> int: a record in the driver's transaction; its offset in partition 0.

    Without a value it is a tombstone: compaction drops earlier records with the key.
    """

    driver: Opened
    topic: str
    key: str
    value: bytes | None


class SendOffsets(NamedTuple):
    """-> None: offsets with their metadata, committed to a group by the driver's transaction."""

    driver: Opened
    group: str
    offsets: Mapping[tuple[str, int], tuple[int, str]]


class CommitDriver(NamedTuple):
    """-> None: the driver's transaction is committed; its next write begins another one.

    It fails if the driver's id was initialised again since.
    """

    driver: Opened


Request: TypeAlias = (
    FetchAnchor
    | ReadRecord
    | FindRecord
    | PrepareTopic
    | Describe
    | ListOpen
    | InitTask
    | Flush
    | AbortOwn
    | CommitAll
    | FenceAll
    | InitDriver
    | Append
    | SendOffsets
    | CommitDriver
)

Steps: TypeAlias = Generator[Request, Any, T]
