"""The features of the cluster, as ApiVersions reports them to clients (KIP-584).

A feature's level says what a client may rely on. `transaction.version` 2: EndTxn raises the
producer's epoch, and Produce adds partitions to the transaction. `group.version` 1: the new
consumer protocol. `share.version` 1: share groups. `eligible.leader.replicas.version` 1: replicas
outside the ISR that may become leader. Levels cannot be changed here: every feature is at its
highest.

Features internal to Apache Kafka (metadata.version, kraft.version and the like) are not advertised:
no client asks for them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from drumlin.broker.apis.served import SERVED
from drumlin.wire.error_codes import ErrorCode, KafkaError


class Feature(NamedTuple):
    """One feature and its supported levels; the highest is in force."""

    name: str
    lowest: int
    highest: int
    needs: str
    """The API that the feature needs."""


FEATURES: Final = tuple(
    each
    for each in (
        Feature("eligible.leader.replicas.version", 0, 1, needs="describe_topic_partitions"),
        Feature("group.version", 0, 1, needs="consumer_group_heartbeat"),
        Feature("share.version", 0, 1, needs="share_fetch"),
        Feature("transaction.version", 0, 2, needs="end_txn"),
    )
    if each.needs in SERVED
)
#: The number of changes to the finalized levels: one, as they never change after the first start.
FINALIZED_EPOCH: Final = 1
#: The first version of ApiVersions whose clients accept a feature with level 0 (KAFKA-17011).
LEVEL_0_FROM_VERSION: Final = 4

#: The protocol's types of update: upgrade (1), safe downgrade (2), unsafe downgrade (3).
UPGRADE: Final = 1
_DOWNGRADES: Final = (2, 3)


def check_update(name: str, level: int, upgrade_type: int) -> None:
    """Check that a feature may be set to a level: only its current level is accepted.

    Raises:
        KafkaError: INVALID_UPDATE_VERSION; the levels are unchanged.
    """
    reason = _refusal(name, level, upgrade_type)
    if reason:
        message = f"feature {name!r} cannot have level {level}: {reason}"
        raise KafkaError(ErrorCode.invalid_update_version, message)


def _refusal(name: str, level: int, upgrade_type: int) -> str:
    feature = next((each for each in FEATURES if each.name == name), None)
    if upgrade_type not in (UPGRADE, *_DOWNGRADES):
        return f"there is no upgrade type {upgrade_type}"
    if feature is None:
        return "there is no such feature"
    if not feature.lowest <= level <= feature.highest:
        return f"levels {feature.lowest} to {feature.highest} are supported"
    if level < feature.highest:
        return "levels cannot be lowered here, what is supported is on"
    return ""
