"""One partition of a simulated cluster, for a real `PartitionSender` in virtual time.

Its log judges sequences by the broker's own `ProducerState`. Each produce request has a fate, and
there are outages: no connection can be made, and those that there are break.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from client.write.flaky_log import answer
from drumlin.client.write.partition_sender import ProducerIdentity
from drumlin.peer.cluster_view import ClusterView, TopicView
from drumlin.peer.options import PeerOptions
from drumlin.peer.peer_error import ConnectionLost
from drumlin.records.batch.batch import parse_header
from drumlin.records.plain.record import decode_batch
from drumlin.storage.producers.producer_state import ProducerState
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.data.messages import response_shape

_VERSION = 9
_ANSWER_S = 0.002  # from the request to its answer
_OPEN_S = 0.001


@dataclass(frozen=True)
class Fate:
    """What becomes of a produce request.

    `code` is the answer, none where that is up to the log; `is_written` says whether the batch
    comes as far as the log at all; `is_answered`, whether the connection lives to tell. It comes
    there after `delay_s`, and its answer so long after that.
    """

    code: ErrorCode = ErrorCode.none
    is_written: bool = True
    is_answered: bool = True
    delay_s: float = _ANSWER_S
    answer_delay_s: float = 0.0


WELL = Fate()
LOST = Fate(is_answered=False)
DROPPED = Fate(is_answered=False, is_written=False)


class SimulatedPartition:
    """Stands in for `BrokerConnections`. `values` is what a reader would see."""

    def __init__(self, fates: Iterator[Fate], outages: list[tuple[float, float]] = []) -> None:  # noqa: B006
        self.options = PeerOptions(request_timeout_ms=30_000)
        self.view = ClusterView(topics={"t": TopicView("t", None, False, {})})
        self.values: list[bytes | None] = []
        self.headers: list[Any] = []
        self.seen: list[bytes | None] = []  # also what was not written, and what came twice
        self._fates = fates
        self._outages = outages
        self._state = ProducerState()
        self._connections: list[SimulatedConnection] = []
        self._next_producer_id = 7
        self.first_epoch = 0  # of each producer id that is given
        loop = asyncio.get_running_loop()
        for start, _ in outages:
            loop.call_at(start, self._break_all)

    async def identify(self, spent: ProducerIdentity | None) -> ProducerIdentity:
        await self._reach()
        self._next_producer_id += 1
        return ProducerIdentity(self._next_producer_id, self.first_epoch)

    async def refresh(self, topics: Any, *, create_missing: bool = False) -> None:
        await self._reach()

    async def leader(self, topic: str, partition: int) -> SimulatedConnection:
        await self._reach()
        for connection in self._connections:
            if connection.is_open:
                return connection
        self._connections.append(SimulatedConnection(self))
        return self._connections[-1]

    async def _reach(self) -> None:
        await asyncio.sleep(_OPEN_S)
        now = asyncio.get_running_loop().time()
        if any(start <= now < end for start, end in self._outages):
            raise ConnectionLost("down")

    def _break_all(self) -> None:
        for connection in self._connections:
            connection.fail()

    def next_fate(self) -> Fate:
        return next(self._fates, WELL)

    def append(self, batch: bytes) -> tuple[ErrorCode, int]:
        """Take a batch in, as the broker does."""
        header = parse_header(batch)
        if header.producer_id >= 0:
            try:
                duplicate = self._state.check_client_batch(header, len(self.values))
            except KafkaError as error:
                return error.code, -1
            if duplicate is not None:
                return ErrorCode.none, duplicate.first_offset
            self._state.update(header, len(self.values), 0)
        base_offset = len(self.values)
        self.headers.append(header)
        self.values += [each.value for each in decode_batch(batch)]
        return ErrorCode.none, base_offset


class SimulatedConnection:
    """Requests are worked off in order; when it breaks, later ones are never seen."""

    def __init__(self, partition: SimulatedPartition) -> None:
        self.is_open = True
        self._partition = partition
        self._free_at = 0.0
        self._answered_at = 0.0
        self._waiting: list[asyncio.Future[Any]] = []

    def version_of(self, api_name: str, version_max: int) -> int:
        return _VERSION

    def send(self, api_name: str, request: Any, *, version_max: int) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        response: asyncio.Future[Any] = loop.create_future()
        self._waiting.append(response)
        self._take(request, response)
        return response

    def send_unanswered(self, api_name: str, request: Any, *, version_max: int) -> None:
        self._take(request, None)

    async def writable(self) -> None:
        await asyncio.sleep(_OPEN_S)

    def _take(self, request: Any, response: asyncio.Future[Any] | None) -> None:
        if not self.is_open:
            raise ConnectionLost("not sent")
        batch = bytes(request.topic_data[0].partition_data[0].records)
        self._partition.seen += [each.value for each in decode_batch(batch)]
        fate = self._partition.next_fate()
        loop = asyncio.get_running_loop()
        self._free_at = max(self._free_at, loop.time()) + fate.delay_s
        loop.call_at(self._free_at, self._process, request, batch, fate, response)

    def _process(
        self, request: Any, batch: bytes, fate: Fate, response: asyncio.Future[Any] | None
    ) -> None:
        if not self.is_open:
            return
        code, base_offset = fate.code, -1
        if fate.is_written:
            code, base_offset = self._partition.append(batch)
            code = fate.code or code
        if not fate.is_answered:
            self.fail()
        elif response is not None:
            shape = response_shape("produce", _VERSION)
            message = answer(shape, request, code, base_offset)
            loop = asyncio.get_running_loop()
            self._answered_at = max(self._answered_at, loop.time() + fate.answer_delay_s)
            loop.call_at(self._answered_at, self._answer, response, message)

    def _answer(self, response: asyncio.Future[Any], message: Any) -> None:
        if self.is_open:
            self._waiting.remove(response)
            response.set_result(message)

    def fail(self) -> None:
        """It breaks."""
        self.is_open = False
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.set_exception(ConnectionLost("reset"))
