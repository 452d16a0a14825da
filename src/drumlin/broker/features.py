"""The features of the cluster, as ApiVersions tells them to clients (KIP-584).

A feature's level says which protocols a client may rely on: `transaction.version` 2 that EndTxn
raises the epoch and Produce adds partitions, `group.version` 1 the new consumer protocol,
`share.version` 1 share groups. Levels cannot be changed here: what is supported is on.

Features internal to Apache Kafka (metadata.version, kraft.version and the like) are not advertised:
no client asks for them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from drumlin.broker.served import SERVED


class Feature(NamedTuple):
    """One feature and its supported levels; the highest is in force."""

    name: str
    lowest: int
    highest: int
    needs: str
    """The API without which there is no such feature."""


FEATURES: Final = tuple(
    each
    for each in (
        Feature("group.version", 0, 1, needs="consumer_group_heartbeat"),
        Feature("share.version", 0, 1, needs="share_fetch"),
        Feature("transaction.version", 0, 2, needs="end_txn"),
    )
    if each.needs in SERVED
)
#: Counts changes of the levels in force. There was one: when they came into force.
FINALIZED_EPOCH: Final = 1
#: The first version of ApiVersions whose clients accept a feature with level 0 (KAFKA-17011).
LEVEL_0_FROM_VERSION: Final = 4
