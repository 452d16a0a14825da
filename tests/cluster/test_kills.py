"""Kills in the middle of changes: what was acknowledged is so, and nothing else is half done."""

from __future__ import annotations

import random
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from cluster.conftest import MakeBroker
from drumlin.metadata.zookeeper.znodes import layout
from rig.servers.zookeeper import ZooKeeper
from rig.servers.zookeeper_operator import Operator
from rig.waiting import wait_until

pytestmark = [pytest.mark.zookeeper, pytest.mark.clients, pytest.mark.slow]

_ROUNDS = 4
_TOPICS = 30


class Changes:
    """Topics that are created and deleted, and what came of it."""

    def __init__(self, address: str) -> None:
        self.client = AdminClient(
            {"bootstrap.servers": address, "log_level": 0, "request.timeout.ms": 2000}
        )
        self.existing: set[str] = set()
        self.gone: set[str] = set()

    def run(self, number: int, kill: Any, choose: random.Random) -> None:
        """Ask for many changes at once, and kill after some of them."""
        deleted = sorted(self.existing)[: _TOPICS // 2]
        created = [f"round-{number}-{each}" for each in range(_TOPICS)]
        asked: dict[str, Future[None]] = {}
        for name in created:
            topic = NewTopic(name, choose.choice([1, 3, 40]), 1)
            asked |= self.client.create_topics([topic], operation_timeout=1, request_timeout=2)
        for name in deleted:
            asked |= self.client.delete_topics([name], operation_timeout=1, request_timeout=2)
        enough = choose.randrange(1, len(asked))
        wait_until(lambda: sum(each.done() for each in asked.values()) >= enough, "some answers")
        kill()
        for name, each in asked.items():
            is_done = each.exception(30) is None
            if name in deleted:
                self.existing.discard(name)
            if is_done:
                (self.gone if name in deleted else self.existing).add(name)


@pytest.mark.deep
@pytest.mark.parametrize("victim", ["broker", "zookeeper"])
def test_what_was_acknowledged_is_so(
    victim: str, make_broker: MakeBroker, mortal_zookeeper: ZooKeeper, operator: Operator
) -> None:
    broker = make_broker()
    broker.start()
    choose, changes = random.Random(victim), Changes(broker.address)
    for number in range(_ROUNDS):
        server = broker if victim == "broker" else mortal_zookeeper
        changes.run(number, server.kill, choose)
        server.start()
        wait_until(lambda: operator.client.connected, "the operator to be back")
        wait_until(lambda: operator.has(layout.broker_path(1)), "the broker to be there")

        def is_one() -> bool:
            """Whether the broker and ZooKeeper have the same topics, all of them led."""
            topics = changes.client.list_topics(timeout=10).topics
            leaders = {
                each.leader for topic in topics.values() for each in topic.partitions.values()
            }
            stored = set(operator.client.get_children(layout.TOPICS))
            return set(topics) == stored and leaders <= {1}

        wait_until(is_one, "both to have the same topics")
        topics = set(changes.client.list_topics(timeout=10).topics)
        assert changes.existing <= topics
        assert not changes.gone & topics
        assert not operator.client.get_children(layout.TO_DELETE)
        assert set(operator.client.get_children("/config/topics")) == topics
