"""Start offsets: the committed ones, those by the option `start`, or new ones after a truncation.

Looks positions up and sets them; does not fetch. Never moves a position silently: an invalid
position becomes an error that poll raises, or a reset that is logged and reported to `on_reset`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from typing import Any, Final, NamedTuple

from drumlin.client.admin.committed_offsets import OffsetAndMetadata
from drumlin.client.consumer.options import ConsumerOptions
from drumlin.client.consumer.positions import PartitionState, Positions, Stage
from drumlin.client.consumer.tasks import Tasks
from drumlin.client.errors import (
    ClientError,
    LogTruncated,
    NoCommittedOffset,
    OffsetOutOfRange,
    OffsetStoreFailed,
    as_client_error,
)
from drumlin.client.places import OffsetSpec
from drumlin.client.read.epoch_ends import ask_epoch_ends
from drumlin.client.read.offsets import list_offsets_or_ends
from drumlin.client.topic_partition import TopicPartition
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.peer_error import PeerError
from drumlin.peer.retry import backoff_s, is_retriable
from drumlin.wire.error_codes import KafkaError

_log = logging.getLogger(__name__)

_NOT_KNOWN: Final = -1

#: Fetches the group's committed offsets of partitions; None without a group.
Committed = Callable[
    [Collection[TopicPartition]], Awaitable[Mapping[TopicPartition, OffsetAndMetadata]]
]


#: Partitions, and their versions when a request for them was sent.
Noted = list[tuple[PartitionState, int]]


class Reset(NamedTuple):
    """The position of a partition was moved by `out_of_range`."""

    place: TopicPartition
    old_offset: int
    new_offset: int


class Starter:
    """The starter, used in the loop. `on_change` is called if partitions are ready or failed."""

    def __init__(
        self,
        positions: Positions,
        options: ConsumerOptions,
        connections: BrokerConnections,
        committed: Committed | None,
        tasks: Tasks,
        on_change: Callable[[], None],
    ) -> None:
        self._positions = positions
        self._options = options
        self._connections = connections
        self._committed = committed
        self._on_change = on_change
        self._tasks = tasks
        self.resets: deque[Reset] = deque()

    def start(self, places: Iterable[TopicPartition]) -> None:
        """Look up the start offsets of these partitions, and have them fetched."""
        states = [self._positions.of(each) for each in places]
        if states:
            self._tasks.spawn(self._insist(_noted(states), self._start))

    def out_of_range(self, state: PartitionState) -> None:
        """Apply the option `out_of_range`, as the log does not have the position."""
        state.drop_buffered()
        state.stage = Stage.STARTING
        self._tasks.spawn(self._insist(_noted([state]), self._reset))

    def seek(self, state: PartitionState, spec: OffsetSpec) -> None:
        """Look up a named place or a time, and continue there."""
        state.stage = Stage.STARTING
        state.failure = None
        state.drop_buffered()

        async def go(noted: Noted) -> None:
            found = await self._look_up({state.place: spec})
            for each in self._still(noted):
                each.go_to(found[each.place])

        self._tasks.spawn(self._insist(_noted([state]), go))

    # -- start, reset, truncation check --------------------------------------------------

    async def _start(self, noted: Noted) -> None:
        committed: Mapping[TopicPartition, OffsetAndMetadata] = {}
        places = [state.place for state, _ in noted]
        if self._committed is not None:
            committed = await self._committed(places)
        start = self._options.start
        new = set(places) - committed.keys()
        found = {}
        if new and start != "committed":
            found = await self._look_up(dict.fromkeys(new, start))
        for state in self._still(noted):
            if state.place in committed:
                place = committed[state.place]
                state.go_to(place.offset, place.leader_epoch)
            elif state.place in found:
                state.go_to(found[state.place])
            else:
                where = f"topic {state.place[0]!r} partition {state.place[1]}"
                state.fail(NoCommittedOffset(f"{where}: no offset is committed"))

    async def _reset(self, noted: Noted) -> None:
        policy = self._options.out_of_range
        for state, _ in noted:
            places = {state.place: "earliest"}, {state.place: "latest"}
            first, end = [(await self._look_up(each))[state.place] for each in places]
            if not self._still(noted):
                return
            if first <= state.position <= end:
                await asyncio.sleep(self._connections.options.retry_backoff_ms / 1000)
                if self._still(noted):  # the position is in range, after all
                    state.fetch_again()
            elif policy == "raise":
                state.fail(OffsetOutOfRange(*state.place, state.position, first, end))
            else:
                self._move(state, first if policy == "earliest" else end)

    def made_again(self, state: PartitionState) -> None:
        """Apply the option `out_of_range`, as the topic was deleted and recreated."""
        if state.position == 0:
            state.go_to(0)
        elif self._options.out_of_range == "raise":
            state.fail(LogTruncated(*state.place, state.position, 0, is_new_topic=True))
            self._on_change()
        else:
            self._move(state, 0)  # it has read none of the new topic's records

    async def check(self, states: list[PartitionState]) -> None:
        """Ask the leaders for the end offset of the epoch that was read last (KIP-320).

        Raises:
            KafkaError, PeerError: a leader is unknown or does not answer.
        """
        by_leader: dict[int, Noted] = defaultdict(list)
        for state, version in _noted(states):
            leader = self._connections.view.leader_of(*state.place)
            by_leader[leader].append((state, version))
        for leader, led in by_leader.items():
            ends = await self._ask_ends(leader, [state for state, _ in led])
            for state in self._still(led, Stage.WAITING):
                end = ends.get(state.place)
                if end is not None:
                    end_offset, _, leader_epoch = end
                    self._compare(state, end_offset, leader_epoch)

    def _compare(self, state: PartitionState, end_offset: int, leader: int) -> None:
        state.leader_epoch = leader
        if end_offset != _NOT_KNOWN and end_offset >= state.position:
            state.stage = Stage.FETCHING
        elif self._options.out_of_range == "raise":
            state.fail(LogTruncated(*state.place, state.position, end_offset))
            self._on_change()
        elif end_offset == _NOT_KNOWN:
            self.out_of_range(state)
        else:
            self._move(state, end_offset)
            state.leader_epoch = leader

    def _move(self, state: PartitionState, offset: int) -> None:
        old = state.position
        where = f"topic {state.place[0]!r} partition {state.place[1]}"
        _log.warning("%s: offset %d is not in the log, continuing at %d", where, old, offset)
        state.go_to(offset)
        self.resets.append(Reset(state.place, old, offset))
        self._on_change()

    # -- requests ------------------------------------------------------------------------

    async def _insist(
        self,
        noted: Noted,
        attempt: Callable[[Noted], Coroutine[Any, Any, None]],
    ) -> None:
        """Retry `attempt` until it succeeds; a permanent error fails the partitions."""
        for pause_s in backoff_s(self._connections.options):
            noted = _noted(self._still(noted))
            if not noted:
                return
            try:
                await attempt(noted)
                break
            except (KafkaError, PeerError, ClientError) as error:
                if passes(error):
                    await asyncio.sleep(pause_s)
                    continue
                failure = error if isinstance(error, ClientError) else as_client_error(error)
                for state in self._still(noted):
                    state.fail(failure)
                break
        self._on_change()

    def _still(self, noted: Noted, stage: Stage = Stage.STARTING) -> list[PartitionState]:
        """Those partitions that were neither revoked nor repositioned meanwhile."""
        return [
            state
            for state, version in noted
            if self._positions.get(state.place, version) is state and state.stage is stage
        ]

    async def _look_up(self, wanted: Mapping[TopicPartition, Any]) -> dict[TopicPartition, int]:
        return await list_offsets_or_ends(self._connections, wanted, self._options.isolation)

    async def _ask_ends(
        self, leader: int, states: list[PartitionState]
    ) -> dict[TopicPartition, tuple[int, int, int]]:
        """For each partition the end offset of our epoch, that epoch, and the leader's epoch."""
        topics = self._connections.view.topics
        wanted = {}
        for state in states:
            topic, partition = state.place
            self._connections.view.leader_of(topic, partition)  # raises if there is none
            current = topics[topic].partitions[partition].leader_epoch
            wanted[state.place] = current, state.position_epoch
        found = await ask_epoch_ends(self._connections, leader, wanted)
        return {
            place: (each.end_offset, each.leader_epoch, wanted[place][0])
            for place, each in found.items()
        }


def passes(error: KafkaError | PeerError | ClientError) -> bool:
    """Whether a retry may succeed."""
    if isinstance(error, ClientError):
        return isinstance(error, OffsetStoreFailed) and error.may_pass
    return is_retriable(error)


def _noted(states: Iterable[PartitionState]) -> Noted:
    return [(each, each.version) for each in states]
