"""Which brokers a partition is placed on: checked where a client says, chosen where not. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from drumlin.wire.errors import ErrorCode, KafkaError

Replicas = tuple[int, ...]

#: Replicas of one partition that are looked at, if there are fewer brokers: among more than there
#: are brokers something is wrong.
_LOOKED_AT: Final = 1000


def spread_replicas(
    broker_ids: Collection[int], partition_count: int, replication_factor: int, start: int
) -> tuple[Replicas, ...]:
    """Replicas of new partitions: leaders go round the brokers, beginning with number `start`.

    Raises:
        KafkaError: INVALID_REPLICATION_FACTOR, when there are too few brokers.
    """
    ordered = sorted(broker_ids)
    if replication_factor > len(ordered):
        raise KafkaError(
            ErrorCode.invalid_replication_factor,
            f"{replication_factor} replicas need as many brokers; there are {len(ordered)}",
        )
    return tuple(
        tuple(
            ordered[(start + partition + replica) % len(ordered)]
            for replica in range(replication_factor)
        )
        for partition in range(partition_count)
    )


def check_replicas(
    replicas: Sequence[int], broker_ids: Collection[int], replica_count: int | None
) -> Replicas:
    """Check one partition's replicas as a client gives them.

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
    """Check the replicas of a new topic's partitions, given as (partition, replicas).

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
