"""What a leader answers, as the handlers of Fetch, ListOffsets and Produce do: over real parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from drumlin.broker.fetch_sessions.partition_read import PartitionRead
from drumlin.peer.follower_fetch import Position
from drumlin.replication.partition import ACKS_ALL, Partition
from drumlin.storage.log.leader_epochs import EpochEnd
from drumlin.wire.by_hand.fetch_response import PartitionFetch
from drumlin.wire.error_codes import ErrorCode, KafkaError
from replication.simulation.world.batches import prepared

_MOST_BYTES = 1_000_000
NOT_LEADER = KafkaError(ErrorCode.not_leader_or_follower)


class FetchRequest(NamedTuple):
    replica_id: int
    broker_epoch: int
    position: Position


class Appended(NamedTuple):
    """What a producer is told."""

    offset: int
    last_offset: int
    value: int


def answer_fetch(partition: Partition, request: FetchRequest) -> PartitionFetch:
    """Note how far a follower has come, and what it gets."""
    asked = request.position
    wanted: Any = (0, *asked, _MOST_BYTES)
    read = PartitionRead(_MOST_BYTES, 0, request.replica_id, request.broker_epoch, None)
    answer = read.follow(partition, wanted) or read.look(partition, wanted, may_block=False)
    code, high_watermark, stable, start, _, records, diverging = answer
    return PartitionFetch(
        0,
        ErrorCode(code),
        high_watermark,
        stable,
        start,
        [],
        memoryview(records.data if records else b""),
        diverging=None if diverging is None else EpochEnd(*diverging),
    )


def answer_offsets(partition: Partition, leader_epoch: int) -> tuple[int, int] | KafkaError:
    """Where the log starts and ends, for a follower."""
    try:
        partition.check_leader_epoch(leader_epoch)
    except KafkaError as error:
        return error
    return partition.log_start_offset, partition.log_end_offset


def produce(
    partition: Partition,
    key: int,
    value: int,
    count: int,
    acks: int,
    appended: Callable[[Appended], None],
    answer: Callable[[Appended | KafkaError], None],
) -> None:
    """Append a batch, and answer when it is confirmed."""
    try:
        result = partition.append_as_leader(prepared(key, value, count), acks, value)
    except KafkaError as error:
        answer(error)
        return
    done = Appended(result.base_offset, result.last_offset, value)
    appended(done)
    if acks != ACKS_ALL or not partition.awaits_replicas:
        answer(done)
        return

    def confirmed(future: Any) -> None:
        error = future.exception()
        answer(done if error is None else error)

    partition.replicated().add_done_callback(confirmed)
