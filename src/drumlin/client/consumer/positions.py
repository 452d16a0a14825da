"""A consumer's position in each of its partitions. Plain state, changed in the loop only.

Three offsets, which differ by the records buffered and those that the user is processing:

    committable <= position <= fetch_offset

`fetch_offset` is where the next fetch starts, `position` is after the records returned to the
user, `committable` is after the records that the user has processed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from math import inf
from uuid import UUID

from drumlin.client.admin.committed_offsets import NO_EPOCH, OffsetAndMetadata
from drumlin.client.errors import ClientError
from drumlin.client.topic_partition import TopicPartition

NO_OFFSET = -1

_VERSIONS = itertools.count()


class Stage(Enum):
    """The stage of a partition, before or while it is fetched."""

    STARTING = auto()  # the start offset is being looked up
    CHECKING = auto()  # a new leader is asked whether its log still contains the position (KIP-320)
    FETCHING = auto()
    WAITING = auto()  # after a retriable error
    FAILED = auto()  # poll raises `failure`, until the user seeks


@dataclass(slots=True)
class PartitionState:
    """One partition. It gets a new `version` whenever its buffered records become stale.

    Versions are never reused, even if a partition is lost and assigned again.
    """

    place: TopicPartition
    stage: Stage = Stage.STARTING
    version: int = field(default_factory=lambda: next(_VERSIONS))
    position: int = NO_OFFSET
    position_epoch: int = NO_EPOCH
    committable: int = NO_OFFSET
    committable_epoch: int = NO_EPOCH
    moved: int = field(default_factory=lambda: next(_VERSIONS))  # a new one at each `go_to`
    fetch_offset: int = NO_OFFSET
    leader_epoch: int = NO_EPOCH  # of the leader whose log is known to contain the position
    topic_id: UUID | None = None  # of the topic that the position is in; None: not known yet
    former_ids: frozenset[UUID] = frozenset()  # of topics of this name that were deleted
    high_watermark: int = NO_OFFSET
    end_offset: int = NO_OFFSET  # the end that the last fetch reported
    ended_s: float = (
        -inf
    )  # the last time at which the log was known to end at `fetch_offset` or before
    is_paused: bool = False
    is_in_flight: bool = False  # a fetch is in flight
    buffered: int = 0  # pieces
    last_fetch: int = 0  # the number of the last fetch, so that partitions take turns
    failure: ClientError | None = None

    @property
    def is_at_end(self) -> bool:
        """Whether the last fetch reached the end of the log."""
        return self.end_offset != NO_OFFSET and self.fetch_offset >= self.end_offset

    def drop_buffered(self) -> None:
        """Drop records that are buffered or in flight, and fetch from the position again."""
        self.version = next(_VERSIONS)
        self.buffered = 0
        self.is_in_flight = False
        self.ended_s = -inf
        self.fetch_offset = self.position

    def go_to(self, offset: int, epoch: int = NO_EPOCH) -> None:
        """Continue at `offset`. Only this may move a position back before the committed offset."""
        self.position = self.committable = offset
        self.position_epoch = self.committable_epoch = epoch
        self.moved = next(_VERSIONS)
        self.topic_id = None
        self.fetch_again()

    def fetch_again(self) -> None:
        """Fetch from the position, once its leader's log is known to reach it."""
        self.end_offset = NO_OFFSET
        self.leader_epoch = NO_EPOCH
        self.failure = None
        self.drop_buffered()
        self.stage = Stage.CHECKING if self.position_epoch != NO_EPOCH else Stage.FETCHING

    def pause(self) -> None:
        """Give the user no records of the partition, and fetch none, until it is resumed.

        This drops the buffer, which changes the version: a retry after an error no longer finds the
        partition, so WAITING ends here. A lookup of the start offset continues.
        """
        self.is_paused = True
        if self.stage is Stage.STARTING:
            return
        self.drop_buffered()
        if self.stage is Stage.WAITING:
            self.stage = Stage.CHECKING

    def fail(self, failure: ClientError) -> None:
        """Make `poll` raise `failure` until the user seeks."""
        self.failure = failure
        self.stage = Stage.FAILED
        self.drop_buffered()


class Positions:
    """The positions of the assigned partitions."""

    def __init__(self) -> None:
        self._states: dict[TopicPartition, PartitionState] = {}

    def __iter__(self) -> Iterator[PartitionState]:
        return iter(self._states.values())

    def __contains__(self, place: TopicPartition) -> bool:
        return place in self._states

    @property
    def places(self) -> frozenset[TopicPartition]:
        return frozenset(self._states)

    def get(self, place: TopicPartition, version: int | None = None) -> PartitionState | None:
        """The state of a partition; None if it is not assigned, or has another version."""
        state = self._states.get(place)
        if state is None or (version is not None and state.version != version):
            return None
        return state

    def of(self, place: TopicPartition) -> PartitionState:
        """
        Raises:
            ClientError: the partition is not assigned to this consumer.
        """
        state = self._states.get(place)
        if state is None:
            where = f"topic {place[0]!r} partition {place[1]}"
            raise ClientError(f"{where} is not assigned to this consumer")
        return state

    def add(self, places: Iterable[TopicPartition]) -> None:
        for place in places:
            self._states[place] = PartitionState(place)

    def remove(self, places: Iterable[TopicPartition]) -> None:
        for place in places:
            state = self._states.pop(place, None)
            if state is not None:
                state.drop_buffered()

    def mark_processed(self) -> None:
        """Mark the returned records as processed, as the user polls again."""
        for state in self._states.values():
            state.committable = state.position
            state.committable_epoch = state.position_epoch

    def committable(
        self, places: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets after the processed records, where known."""
        wanted = self._states.keys() if places is None else places
        found = {}
        for place in wanted:
            state = self._states.get(place)
            if state is not None and state.committable != NO_OFFSET:
                found[place] = OffsetAndMetadata(state.committable, "", state.committable_epoch)
        return found

    def current(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets after the returned records, where known."""
        return {
            each.place: OffsetAndMetadata(each.position, "", each.position_epoch)
            for each in self._states.values()
            if each.position != NO_OFFSET
        }
