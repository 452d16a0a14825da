"""Who decides about the metadata of a cluster, as a broker tells clients."""

from __future__ import annotations

from typing import NamedTuple

from rig.data.raw import RawClient

_ASKED = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]


class Quorum(NamedTuple):
    leader: int
    epoch: int
    voters: list[int]
    observers: list[int]


def quorum(port: int) -> Quorum:
    """What one broker says."""
    with RawClient(port) as client:
        (topic,) = client.ask("describe_quorum", 2, topics=_ASKED).topics
    (found,) = topic.partitions
    voters = [each.replica_id for each in found.current_voters]
    observers = [each.replica_id for each in found.observers]
    return Quorum(found.leader_id, found.leader_epoch, voters, observers)
