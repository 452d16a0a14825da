"""Which brokers a partition is placed on: checked where a client says, chosen where not. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from drumlin.wire.errors import ErrorCode, KafkaError

Replicas = tuple[int, ...]


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
            f"Unable to replicate the partition {replication_factor} time(s): The target "
            f"replication factor of {replication_factor} cannot be reached because only "
            f"{len(ordered)} broker(s) are registered or some brokers have all their log "
            "directories cordoned.",
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
        raise _invalid("The manual partition assignment includes an empty replica list.")
    seen = set()
    for each in sorted(replicas):
        if each in seen:
            raise _invalid(
                f"The manual partition assignment includes the broker {each} more than once."
            )
        seen.add(each)
        if each not in broker_ids:
            raise _invalid(
                f"The manual partition assignment includes broker {each}, "
                "but no such broker is registered."
            )
    if replica_count is not None and len(replicas) != replica_count:
        raise _invalid(
            f"The manual partition assignment includes a partition with {len(replicas)} "
            "replica(s), but this is not consistent with previous partitions, which have "
            f"{replica_count} replica(s)."
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
            message = f"Found multiple manual partition assignments for partition {index}"
            raise _invalid(message)
        by_index[index] = check_replicas(replicas, broker_ids, replica_count)
        replica_count = len(replicas)
    if by_index.keys() != set(range(len(by_index))):
        raise _invalid("partitions should be a consecutive 0-based integer sequence")
    return tuple(by_index[index] for index in range(len(by_index)))


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_replica_assignment, message)
