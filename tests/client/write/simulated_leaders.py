"""Two brokers of a simulated cluster that lead the partitions of a topic, in virtual time.

Real senders share requests to them. What becomes of a request, and of each batch in it, is chosen;
leaders move. Logs judge sequences by the broker's own `ProducerState`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from drumlin.client.write.partition_sender import ProducerIdentity
from drumlin.peer.cluster_view import ClusterView, TopicView
from drumlin.peer.options import PeerOptions
from drumlin.peer.peer_error import ConnectionLost
from drumlin.records.batch.batch import parse_header
from drumlin.records.plain.record import decode_batch
from drumlin.storage.producers.producer_state import ProducerState
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from rig.data.messages import response_shape

_VERSION: Final = 9
_TRIP_S: Final = 0.001
NODES: Final = (1, 2)

#: What becomes of a request: it is answered; written, and the connection breaks; or lost before.
WELL, LOST, DROPPED = "well", "lost", "dropped"
#: What becomes of a batch in it, beside error codes: those of PERHAPS come after the append.
LEFT_OUT, TOLD_TWICE = "left out", "told twice"
PERHAPS: Final = frozenset(
    {ErrorCode.request_timed_out, ErrorCode.not_enough_replicas_after_append}
)
BatchFate = ErrorCode | str


@dataclass
class Log:
    values: list[bytes | None] = field(default_factory=list)
    producers: ProducerState = field(default_factory=ProducerState)

    def append(self, batch: bytes) -> tuple[ErrorCode, int]:
        header = parse_header(batch)
        try:
            duplicate = self.producers.check_client_batch(header, len(self.values))
        except KafkaError as error:
            return error.code, -1
        if duplicate is not None:
            return ErrorCode.none, duplicate.first_offset
        base_offset = len(self.values)
        self.producers.update(header, base_offset, 0)
        self.values += [each.value for each in decode_batch(batch)]
        return ErrorCode.none, base_offset


class SimulatedLeaders:
    """Stands in for `BrokerConnections`."""

    def __init__(
        self, partitions: int, requests: Iterator[tuple[str, float]], batches: Iterator[BatchFate]
    ) -> None:
        self.options = PeerOptions()
        self.view = ClusterView(topics={"t": TopicView("t", None, False, {})})
        self.logs = [Log() for _ in range(partitions)]
        self.leaders = dict.fromkeys(range(partitions), 1)
        self.down: set[int] = set()
        self.refusals: dict[int, ErrorCode] = {}  # of a partition, always
        self.sizes: list[int] = []  # batches of each request
        self._known = dict(self.leaders)
        self._requests, self._batches = requests, batches
        self._connections: dict[int, Connection] = {}

    async def identify(self, spent: ProducerIdentity | None) -> ProducerIdentity:
        await asyncio.sleep(_TRIP_S)
        return ProducerIdentity(7, 0)

    async def refresh(self, topics: Any, *, create_missing: bool = False) -> None:
        await asyncio.sleep(_TRIP_S)
        self._known = dict(self.leaders)

    async def leader(self, topic: str, partition: int) -> Connection:
        await asyncio.sleep(_TRIP_S)
        node_id = self._known[partition]
        if node_id in self.down:
            raise ConnectionLost("down")
        connection = self._connections.get(node_id)
        if connection is None or not connection.is_open:
            connection = self._connections[node_id] = Connection(self, node_id)
        return connection

    def request_fate(self) -> tuple[str, float]:
        return next(self._requests, (WELL, _TRIP_S))

    def write(self, node_id: int, partition: int, batch: bytes) -> tuple[BatchFate, int]:
        """What a leader does with a batch, and says of it."""
        if self.leaders[partition] != node_id:
            return ErrorCode.not_leader_or_follower, -1
        fate = self.refusals.get(partition) or next(self._batches, ErrorCode.none)
        if isinstance(fate, ErrorCode) and fate is not ErrorCode.none and fate not in PERHAPS:
            return fate, -1
        code, base_offset = self.logs[partition].append(batch)
        return (code if code is not ErrorCode.none else fate), base_offset


class Connection:
    """Requests are worked off in order; when it breaks, later ones are never seen."""

    def __init__(self, leaders: SimulatedLeaders, node_id: int) -> None:
        self.is_open = True
        self._leaders, self._node_id = leaders, node_id
        self._free_at = 0.0
        self._waiting: list[asyncio.Future[Any]] = []

    def version_of(self, api_name: str, version_max: int) -> int:
        return _VERSION

    def send(self, api_name: str, request: Any, *, version_max: int) -> asyncio.Future[Any]:
        if not self.is_open:
            raise ConnectionLost("not sent")
        loop = asyncio.get_running_loop()
        # As bytes: a sender stamps its batch again, perhaps, once it is answered.
        (topic,) = request.topic_data
        batches = [(each.index, bytes(each.records)) for each in topic.partition_data]
        self._leaders.sizes.append(len(batches))
        fate, delay_s = self._leaders.request_fate()
        self._free_at = max(self._free_at, loop.time()) + delay_s
        response: asyncio.Future[Any] = loop.create_future()
        self._waiting.append(response)
        loop.call_at(self._free_at, self._process, batches, fate, response)
        return response

    def _process(
        self, batches: list[tuple[int, bytes]], fate: str, response: asyncio.Future[Any]
    ) -> None:
        if not self.is_open:
            return
        told = []
        if fate != DROPPED:
            told = [(at, *self._leaders.write(self._node_id, at, each)) for at, each in batches]
        if fate == WELL:
            self._waiting.remove(response)
            response.set_result(_response(told))
        else:
            self._fail()

    def _fail(self) -> None:
        self.is_open = False
        for each in self._waiting:
            each.set_exception(ConnectionLost("reset"))


def _response(told: list[tuple[int, BatchFate, int]]) -> Any:
    shape = response_shape("produce", _VERSION)
    partitions = [
        shape(
            "PartitionProduceResponse",
            index=partition,
            error_code=fate if isinstance(fate, ErrorCode) else ErrorCode.none,
            base_offset=base_offset,
            log_append_time=None,
            log_start_offset=0,
            record_errors=(),
            error_message=None,
        )
        for partition, fate, base_offset in told
        for _ in range({LEFT_OUT: 0, TOLD_TWICE: 2}.get(fate, 1) if isinstance(fate, str) else 1)
    ]
    topic = shape("TopicProduceResponse", name="t", partition_responses=tuple(partitions))
    return shape("ProduceResponse", responses=(topic,), throttle_time=ZERO)
