"""Fetches ahead for all partitions, with one request in flight for each route to a leader.

A broker holds a fetch while there is nothing to read, and answers the requests of a connection in
order. So partitions without lag share a request that may wait, on a connection of its own, and
lagging partitions take the other route, where no request waits long.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from drumlin.client.admin.committed_offsets import NO_EPOCH
from drumlin.client.consumer.fetching.fetch_buffer import FetchBuffer, Frame, Piece
from drumlin.client.consumer.fetching.fetch_request import Limits, Wanted, fetch_partitions
from drumlin.client.consumer.offsets.start_offsets import Starter
from drumlin.client.consumer.options import ConsumerOptions
from drumlin.client.consumer.positions import PartitionState, Positions, Stage
from drumlin.client.consumer.tasks import Tasks
from drumlin.client.errors import as_client_error
from drumlin.client.topic_partition import TopicPartition
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.fetch import last_whole_batch
from drumlin.peer.peer_error import InvalidResponse, PeerError
from drumlin.peer.retry import is_retriable
from drumlin.peer.rights import refusal
from drumlin.wire.by_hand.fetch_response import PartitionFetch
from drumlin.wire.error_codes import ErrorCode, KafkaError

_PIECES_AHEAD: Final = 2  # per partition: the piece being read, and the next
_PROMPT_WAIT_MS: Final = 50  # a lagging partition has records, unless its leader just changed
_FREE_MIN_BYTES: Final = 64 << 10
_WAITING_SHARE: Final = 4  # waiting fetches may take 1/4 of the buffer

#: The versions of partitions when a request for them was sent.
Versions = Mapping[TopicPartition, int]


class Route(NamedTuple):
    """A connection to a leader: the one whose fetches may wait, or the prompt one."""

    leader: int
    waits: bool


class Fetcher:
    """The fetcher, used in the loop. `on_change` is called if the user gets records or an error."""

    def __init__(
        self,
        positions: Positions,
        buffer: FetchBuffer,
        starter: Starter,
        options: ConsumerOptions,
        prompt: BrokerConnections,
        waiting: BrokerConnections,
        tasks: Tasks,
        on_change: Callable[[], None],
    ) -> None:
        self._positions = positions
        self._buffer = buffer
        self._starter = starter
        self._options = options
        self._prompt = prompt
        self._waiting = waiting
        self._on_change = on_change
        self._busy: set[Route] = set()
        self._tasks = tasks
        self._fetches = 0
        self._failures = 0  # in a row
        self._is_stopped = False

    def pump(self) -> None:
        """Send the fetches that are due, as far as memory allows."""
        if self._is_stopped:
            return
        routes: dict[Route, list[PartitionState]] = defaultdict(list)
        lost: list[PartitionState] = []
        unchecked: list[PartitionState] = []
        for state in self._positions:
            if not _is_fetchable(state):
                continue
            try:
                leader = self._leader_of(state)
            except KafkaError:
                lost.append(state)
                continue
            if not self._is_same_topic(state):
                continue
            if self._is_checked(state):
                routes[Route(leader, state.is_at_end)].append(state)
            else:
                unchecked.append(state)
        if lost:
            self._recover(lost)
        if unchecked:
            self._tasks.spawn(self._check(_hold(unchecked)))
        for states in routes.values():
            states.sort(key=lambda each: each.last_fetch)
        # If memory is short, the partition fetched most recently comes last.
        for route, states in sorted(routes.items(), key=lambda each: each[1][0].last_fetch):
            if route not in self._busy:
                self._begin(route, states)

    def stop(self) -> None:
        """Send no more fetches."""
        self._is_stopped = True

    def _is_same_topic(self, state: PartitionState) -> bool:
        """Whether the position is in the current topic of this name, possibly after a reset."""
        topic_id = self._topic_id(state)
        if state.topic_id is not None and topic_id not in (None, state.topic_id):
            if state.buffered:
                return False  # the buffered records are returned first
            state.former_ids |= {state.topic_id}
            self._starter.made_again(state)
        state.topic_id = topic_id or state.topic_id
        return _is_fetchable(state)

    def _topic_id(self, state: PartitionState) -> UUID | None:
        return self._prompt.view.topics[state.place.topic].topic_id

    def _leader_of(self, state: PartitionState) -> int:
        """
        Raises:
            KafkaError: there is no leader, or the metadata are of a broker that lags.
        """
        leader = self._prompt.view.leader_of(*state.place)
        if self._topic_id(state) in state.former_ids:
            where = f"topic {state.place.topic!r} partition {state.place.partition}"
            raise KafkaError(ErrorCode.unknown_topic_id, f"{where}: its topic was deleted")
        return leader

    def _is_checked(self, state: PartitionState) -> bool:
        """Whether the current leader's log is known to reach the position."""
        topic, partition = state.place
        epoch = self._prompt.view.topics[topic].partitions[partition].leader_epoch
        if state.position_epoch == NO_EPOCH or epoch == NO_EPOCH:
            state.stage = Stage.FETCHING
            state.leader_epoch = epoch
        elif epoch != state.leader_epoch and state.stage is Stage.FETCHING:
            state.drop_buffered()
            state.stage = Stage.CHECKING
        return state.stage is Stage.FETCHING

    # -- fetching ------------------------------------------------------------------------

    def _begin(self, route: Route, states: list[PartitionState]) -> None:
        limit = self._options.buffer_bytes
        free_bytes = self._buffer.free_bytes
        if route.waits:
            # Memory reserved for waiting fetches must not hold up lagging partitions.
            free_bytes = min(
                free_bytes, limit // _WAITING_SHARE // max(1, len(self._prompt.view.brokers))
            )
        elif free_bytes < min(_FREE_MIN_BYTES, limit // 2):
            return
        if free_bytes <= 0:
            return
        max_bytes = min(free_bytes, self._options.max_bytes_per_batch)
        limits = Limits(
            max_bytes,
            max_bytes,
            self._options.max_wait_ms if route.waits else _PROMPT_WAIT_MS,
            self._options.isolation,
        )
        self._fetches += 1
        wanted = []
        for state in states:
            state.is_in_flight = True
            wanted.append(
                Wanted(state.place, state.fetch_offset, state.leader_epoch, state.topic_id)
            )
        self._busy.add(route)
        self._buffer.reserve(max_bytes)
        versions = {each.place: each.version for each in states}
        self._tasks.spawn(self._fetch(route, wanted, limits, versions))

    async def _fetch(
        self,
        route: Route,
        wanted: list[Wanted],
        limits: Limits,
        versions: Versions,
    ) -> None:
        troubled: list[PartitionState] = []
        error: BaseException | None = None
        asked_s = asyncio.get_running_loop().time()
        answers: dict[TopicPartition, PartitionFetch] = {}
        try:
            connections = self._waiting if route.waits else self._prompt
            connection = await connections.broker(route.leader)
            answers = await fetch_partitions(connection, wanted, limits)
        except (KafkaError, PeerError) as caught:
            error = caught
        finally:
            self._busy.discard(route)
            self._buffer.give_up(limits.max_bytes)
        states = [
            state
            for place, version in versions.items()
            if (state := self._positions.get(place, version)) is not None
        ]
        for state in states:
            state.is_in_flight = False
        if error is None:
            troubled = self._take(answers, states, asked_s)
        elif is_retriable(error):
            troubled = states
        else:
            self._fail(states, error)
        if troubled:
            self._recover(troubled)
        else:
            self._failures = 0
        self.pump()

    def _take(
        self,
        answers: Mapping[TopicPartition, PartitionFetch],
        states: list[PartitionState],
        asked_s: float,
    ) -> list[PartitionState]:
        """Process a response; returns the partitions that need fresh metadata."""
        frame = Frame(sum(len(each.records) for each in answers.values()), 0)
        pieces: list[Piece] = []
        troubled: list[PartitionState] = []
        for state in states:
            answer = answers.get(state.place)
            if answer is None:
                continue
            if answer.error_code is ErrorCode.offset_out_of_range:
                if state.buffered:
                    troubled.append(state)  # the buffered records are returned first
                else:
                    self._starter.out_of_range(state)
            elif answer.error_code is not ErrorCode.none:
                where = f"fetch of topic {state.place[0]!r} partition {state.place[1]}"
                error = refusal("fetch", answer.error_code, where)
                if is_retriable(error):
                    troubled.append(state)
                else:
                    self._fail([state], error)
            else:
                piece = self._piece(state, answer, frame)
                if state.is_at_end:
                    state.ended_s = asked_s
                if piece is not None:
                    pieces.append(piece)
        frame.pieces = len(pieces)
        self._buffer.put(pieces)
        if pieces:
            self._on_change()
        return troubled

    def _piece(self, state: PartitionState, answer: PartitionFetch, frame: Frame) -> Piece | None:
        state.high_watermark = answer.high_watermark
        committed = self._options.isolation == "read_committed" and answer.last_stable_offset >= 0
        state.end_offset = answer.last_stable_offset if committed else answer.high_watermark
        if not answer.records:
            return None
        last = last_whole_batch(answer.records)
        if last is None:
            return None
        if last.end_offset <= state.fetch_offset:
            where = f"topic {state.place[0]!r} partition {state.place[1]}"
            what = f"fetched from {state.fetch_offset}, got only records before it"
            self._fail([state], InvalidResponse(f"{where}: {what}"))
            return None
        piece = Piece(
            state.place,
            state.version,
            state.fetch_offset,
            last.end_offset,
            last.leader_epoch,
            state.leader_epoch,
            state.ended_s,
            answer.records,
            answer.aborted_transactions,
            frame,
        )
        state.fetch_offset = last.end_offset
        state.last_fetch = self._fetches
        state.buffered += 1
        return piece

    def _fail(self, states: Iterable[PartitionState], error: KafkaError | PeerError | Any) -> None:
        for state in states:
            state.fail(as_client_error(error))
        self._on_change()

    # -- errors --------------------------------------------------------------------------

    async def _check(self, versions: Versions) -> None:
        """Ask the leaders whether their logs still contain the positions (KIP-320)."""
        try:
            await self._starter.check(self._unchanged(versions))
        except (KafkaError, PeerError) as error:
            if not is_retriable(error):
                self._fail(self._unchanged(versions), error)
        unanswered = self._unchanged(versions)
        if unanswered:
            self._recover(unanswered)
        self.pump()

    def _recover(self, states: list[PartitionState]) -> None:
        """Fetch these partitions again after a back-off and a metadata refresh."""
        self._failures += 1
        options = self._prompt.options
        pause_ms = options.retry_backoff_ms * 2 ** min(self._failures - 1, 10)
        pause_s = min(pause_ms, options.retry_backoff_max_ms) / 1000
        self._tasks.spawn(self._refresh_after(pause_s, _hold(states)))

    async def _refresh_after(self, pause_s: float, versions: Versions) -> None:
        await asyncio.sleep(pause_s)
        try:
            await self._prompt.refresh({topic for topic, _ in versions})
        except (KafkaError, PeerError) as error:
            if not is_retriable(error):
                self._fail(self._unchanged(versions), error)
        # A new leader is first asked whether its log still contains the position.
        for state in self._unchanged(versions):
            state.stage = Stage.CHECKING
        self.pump()

    def _unchanged(self, versions: Versions) -> list[PartitionState]:
        """The held partitions that were neither repositioned nor revoked."""
        found = (self._positions.get(place, version) for place, version in versions.items())
        return [each for each in found if each is not None and each.stage is Stage.WAITING]


def _is_fetchable(state: PartitionState) -> bool:
    return (
        state.stage in (Stage.FETCHING, Stage.CHECKING)
        and not state.is_paused
        and not state.is_in_flight
        and state.buffered < _PIECES_AHEAD
    )


def _hold(states: list[PartitionState]) -> Versions:
    """Stop fetching these partitions until their stage changes; returns their versions."""
    for state in states:
        state.stage = Stage.WAITING
    return {each.place: each.version for each in states}
