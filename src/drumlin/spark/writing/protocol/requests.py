"""What the protocol asks of a cluster, one value a request.

The protocol is written as generators that yield these and are sent the answers; what fails is
thrown into them as `RequestFailed`. So the same code runs against a cluster and against a model
of one, and between any two requests its process may die.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from drumlin.spark.writing.protocol.transactions import Opened

T = TypeVar("T")


class FetchAnchor(NamedTuple):
    """-> Anchor | None: what the group has committed for partition 0 of the topic.

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
    """-> bytes | None: the last committed value with this key in all of the topic.

    The topic has to be there: whoever asks has prepared it.
    """

    topic: str
    key: str


class PrepareTopic(NamedTuple):
    """-> None: make the decision topic, if it is not there; refuse one that forgets by age."""

    topic: str


class Description(NamedTuple):
    """A transactional id as its coordinator knows it; states as in Kafka: "Ongoing", ..."""

    state: str
    producer_id: int
    epoch: int
    start_ms: int = -1  # of the transaction, by the broker's clock
    timeout_ms: int = -1

    def is_of(self, opened: Opened) -> bool:
        """Whether nobody has initialised the id since, nor has it timed out."""
        return (self.producer_id, self.epoch) == opened[1:]


class Describe(NamedTuple):
    """-> dict[str, Description]: those ids that coordinators know."""

    transactional_ids: tuple[str, ...]


class ListOpen(NamedTuple):
    """-> tuple[str, ...]: ids that begin so and have an open transaction, of the whole cluster."""

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


#: "committed"; "aborted": it is certain that it was, or will be; "unknown": no coordinator knows
#: the id any more, or what was written in it, or somebody has taken it since; "unanswered": ask
#: again later.
Outcome: TypeAlias = Literal["committed", "aborted", "unknown", "unanswered"]


class CommitAll(NamedTuple):
    """-> dict[Opened, Outcome]: EndTxn(commit) for each, tried for as long as a call may take."""

    opened: tuple[Opened, ...]


class FenceAll(NamedTuple):
    """-> int: InitProducerId on each id, which aborts what is open under it; how many took it.

    One that cannot be reached is left to its time-out.
    """

    transactional_ids: tuple[str, ...]


class InitDriver(NamedTuple):
    """-> Opened: InitProducerId of the driver's id: older drivers are fenced from here on."""

    transactional_id: str


class Append(NamedTuple):
    """-> int: a record in the driver's transaction; its offset in partition 0.

    Without a value it has compaction drop what was written under the key before.
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
    """-> None: the driver's transaction is committed; what it writes next is another one.

    That goes through as long as nobody has initialised its id.
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
