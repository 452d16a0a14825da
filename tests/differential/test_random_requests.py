"""Requests at random, the same to both brokers: for what no other test thinks of.

Left out is what would make the two brokers' worlds differ by chance of timing, and what Kafka's
handlers do not survive (see the other files).
"""

from __future__ import annotations

import random

import pytest

from differential.compare import Step
from differential.peer import Peer
from differential.random_requests import RandomRequests, World
from differential.scripts import Broker, Brokers, all_versions
from rig.depth import seeds

_APIS = (
    "create_partitions",
    "create_topics",
    "delete_groups",
    "describe_configs",
    "describe_groups",
    "describe_topic_partitions",
    "fetch",
    "find_coordinator",
    "heartbeat",
    "incremental_alter_configs",
    "init_producer_id",
    "leave_group",
    "list_offsets",
    "offset_commit",
    "offset_delete",
    "offset_fetch",
    "offset_for_leader_epoch",
    "sync_group",
)
_REQUESTS = 300


def _world(peer: Peer) -> World:
    # The records are old, and not to be deleted for it.
    kept = {"retention.ms": "-1"}
    topics = (peer.topic("a", 2, kept), peer.topic("b", configs={"cleanup.policy": "compact"}))
    group = peer.unique("group")
    peer.await_coordinator(group)
    peer.await_producer_ids()
    peer.keep("nobody")
    for number in range(4):
        peer.produce(topics[0], b"%d" % number, timestamp=1_700_000_000_000 + number * 1000)
    return World(topics, tuple(map(peer.topic_id, topics)), group)


@pytest.mark.kafka
@pytest.mark.parametrize("seed", seeds(1, 3))
def test_random_requests(brokers: Brokers, seed: int) -> None:
    chance = random.Random(seed)
    plan = [
        (api, chance.choice(all_versions(api)), chance.getrandbits(60))
        for api in (chance.choice(_APIS) for _ in range(_REQUESTS))
    ]

    def run(name: str, broker: Broker) -> tuple[list[Step], None]:
        peer = Peer(name, broker.port, f"random-{seed}", "all", 0)
        world = _world(peer)
        for api, version, number in plan:
            request = RandomRequests(number, world).request(api, version)
            peer.note(str(request)[:600])
            peer.ask(api, version, **request)
        peer.close()
        return peer.steps, None

    brokers.compare(__name__, f"random[{seed}]", run, f"random requests of seed {seed}")
