"""Replica assignment: checks of assignments by clients, and the choice of others. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import count as count_from
from itertools import zip_longest
from typing import Final

from drumlin.wire.error_codes import ErrorCode, KafkaError

Replicas = tuple[int, ...]

#: The number of a partition's replicas to check, if there are no more brokers than that. Further
#: replicas are never valid.
_LOOKED_AT: Final = 1000


def spread_replicas(
    racks: Mapping[int, str | None],
    partition_count: int,
    replication_factor: int,
    start: int,
    first_index: int = 0,
) -> tuple[Replicas, ...]:
    """Replicas of new partitions, spread over brokers and racks by Apache Kafka's algorithm.

    Leaders are assigned round-robin to the brokers, and followers to the others. Racks alternate,
    and each partition has replicas on as many racks as possible. Brokers without a rack count as
    one rack of their own.

    racks: the rack of each broker, by broker id.
    start: the position of the topic's first leader in the order of `in_turns`.
    first_index: the number of existing partitions of the topic.

    Raises:
        KafkaError: INVALID_REPLICATION_FACTOR, there are too few brokers.
    """
    if replication_factor > len(racks):
        raise KafkaError(
            ErrorCode.invalid_replication_factor,
            f"{replication_factor} replicas need as many brokers; there are {len(racks)}",
        )
    arranged, rack_count = in_turns(racks), len(set(map(_rack, racks.values())))
    count, known = len(arranged), dict[tuple[int, int], Replicas]()
    spread = []
    for index in range(first_index, first_index + partition_count):
        # Each round of leaders has different followers, so many brokers take over from one that
        # fails.
        place = (start + index) % count, (start + index // count) % max(count - 1, 1)
        if place not in known:
            known[place] = _spread(racks, arranged, rack_count, replication_factor, *place)
        spread.append(known[place])
    return tuple(spread)


def in_turns(racks: Mapping[int, str | None]) -> list[int]:
    """The brokers, ordered so that racks alternate."""
    by_rack: dict[str, list[int]] = {}
    for node_id in sorted(racks):
        by_rack.setdefault(_rack(racks[node_id]), []).append(node_id)
    in_order = [by_rack[rack] for rack in sorted(by_rack)]
    rounds = zip_longest(*in_order)
    return [node_id for some in rounds for node_id in some if node_id is not None]


def start_after(racks: Mapping[int, str | None], first_leader: int) -> int:
    """The `start` of a topic whose first leader was this broker."""
    arranged = in_turns(racks)
    if first_leader in racks:
        return arranged.index(first_leader)
    return next((at for at, each in enumerate(arranged) if each >= first_leader), 0)


def _rack(rack: str | None) -> str:
    return rack or ""


def _spread(
    racks: Mapping[int, str | None],
    arranged: Sequence[int],
    rack_count: int,
    replication_factor: int,
    first: int,
    shift: int,
) -> Replicas:
    """The replicas of one partition, on different racks as far as possible."""
    replicas = [arranged[first]]
    used = {_rack(racks[arranged[first]])}
    for step in count_from(shift * rack_count):
        if len(replicas) == replication_factor:
            break
        node_id = arranged[(first + 1 + step % (len(arranged) - 1)) % len(arranged)]
        rack = _rack(racks[node_id])
        if node_id not in replicas and (rack not in used or len(used) == rack_count):
            replicas.append(node_id)
            used.add(rack)
    return tuple(replicas)


def check_replicas(
    replicas: Sequence[int], broker_ids: Collection[int], replica_count: int | None
) -> Replicas:
    """Check the replicas that a client assigns to one partition.

    Raises:
        KafkaError: INVALID_REPLICA_ASSIGNMENT.
    """
    if not replicas:
        raise _invalid("a partition is assigned no replicas")
    seen = set()
    for each in sorted(replicas[: max(_LOOKED_AT, len(broker_ids) + 1)]):
        if each in seen:
            raise _invalid(f"broker {each} is assigned more than one replica of a partition")
        seen.add(each)
        if each not in broker_ids:
            raise _invalid(f"there is no broker {each}")
    if replica_count is not None and len(replicas) != replica_count:
        raise _invalid(
            f"a partition is assigned {len(replicas)} replicas, "
            f"and those before it have {replica_count}"
        )
    return tuple(replicas)


def check_assignments(
    assignments: Sequence[tuple[int, Sequence[int]]], broker_ids: Collection[int]
) -> tuple[Replicas, ...]:
    """Check the replicas that a client assigns to a new topic, as pairs (partition, replicas).

    Raises:
        KafkaError: INVALID_REPLICA_ASSIGNMENT.
    """
    by_index: dict[int, Replicas] = {}
    replica_count = None
    for index, replicas in assignments:
        if index in by_index:
            message = f"partition {index} is assigned replicas more than once"
            raise _invalid(message)
        by_index[index] = check_replicas(replicas, broker_ids, replica_count)
        replica_count = len(replicas)
    if by_index.keys() != set(range(len(by_index))):
        raise _invalid("the assigned partitions must be numbered from 0 without a gap")
    return tuple(by_index[index] for index in range(len(by_index)))


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_replica_assignment, message)
