"""All brokers are killed at once: what was acknowledged is there, whoever comes back, and how."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from cluster.conftest import MakeBroker
from cluster.numbers import bootstrap, consume, produce
from drumlin.metadata.zookeeper.znodes import layout
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.messages import render
from rig.servers.zookeeper_operator import Operator
from rig.waiting import wait_until

pytestmark = [pytest.mark.zookeeper, pytest.mark.clients, pytest.mark.slow]

_RECORDS = 1000
Servers = dict[int, DrumlinServer]


@pytest.fixture
def brokers(make_broker: MakeBroker) -> Servers:
    """Brokers 1, 2 and 3 with a topic of one partition, which broker 1 leads."""
    servers = {}
    for node_id in (1, 2, 3):
        servers[node_id] = make_broker({"node.id": str(node_id)}, f"broker-{node_id}")
        servers[node_id].start()
    topic = NewTopic("t", 1, replica_assignment=[[1, 2, 3]], config={"min.insync.replicas": "2"})
    admin = AdminClient({"bootstrap.servers": bootstrap(servers)})
    admin.create_topics([topic])["t"].result(20)
    return servers


def state(operator: Operator) -> layout.StateNode:
    return layout.decode_state("", operator.get(layout.state_path("t", 0)))


def comes_to(operator: Operator, is_so: Callable[[layout.StateNode], bool], what: str) -> None:
    wait_until(lambda: is_so(state(operator)), what, 60)


def cut_power(servers: Servers) -> None:
    with ThreadPoolExecutor(len(servers)) as pool:
        list(pool.map(lambda each: each.kill(), servers.values()))


@pytest.mark.deep
@pytest.mark.parametrize("is_first", [False, pytest.param(True, marks=pytest.mark.deep)])
def test_one_comes_back_with_an_empty_disk(
    brokers: Servers, operator: Operator, is_first: bool
) -> None:
    produce(brokers, range(_RECORDS))
    cut_power(brokers)
    shutil.rmtree(brokers[1].data)
    order = [1, 2, 3] if is_first else [2, 3, 1]
    for node_id in order[:2]:
        brokers[node_id].start()
    if not is_first:
        comes_to(operator, lambda it: it.leader > 0, "two of them to be enough")
        assert sorted(consume({2: brokers[2], 3: brokers[3]}, _RECORDS)) == list(range(_RECORDS))
    else:
        assert state(operator).leader == -1
    brokers[order[2]].start()
    comes_to(operator, lambda it: len(it.isr) == 3, "all to be in sync")
    assert state(operator).leader != 1
    produce(brokers, range(_RECORDS, _RECORDS + 10))
    assert sorted(consume(brokers, _RECORDS + 10)) == list(range(_RECORDS + 10))


@pytest.mark.deep
def test_one_comes_back_with_a_copy_of_its_clean_stop(brokers: Servers, operator: Operator) -> None:
    produce(brokers, range(100))
    brokers[1].stop()
    copy = brokers[1].data.with_name("copy")
    shutil.copytree(brokers[1].data, copy)
    brokers[1].start()
    comes_to(operator, lambda it: len(it.isr) == 3, "all to be in sync")
    produce(brokers, range(100, 100 + _RECORDS))
    cut_power(brokers)
    shutil.rmtree(brokers[1].data)
    copy.rename(brokers[1].data)
    brokers[1].start()
    assert "is an older copy" in brokers[1].said()
    comes_to(operator, lambda it: it.leader == -1, "nobody to lead")
    for node_id in (2, 3):
        brokers[node_id].start()
    comes_to(operator, lambda it: len(it.isr) == 3, "all to be in sync")
    assert sorted(consume(brokers, _RECORDS + 100)) == list(range(_RECORDS + 100))


@pytest.mark.deep
def test_a_clean_stop_of_all_needs_no_recovery(brokers: Servers, operator: Operator) -> None:
    """One that was not the last to stop is back, and leads at once: it lacks nothing.

    With another one there are enough, and all is committed that was.
    """
    produce(brokers, range(10))
    for node_id in (2, 3, 1):
        brokers[node_id].stop()
    stopped = state(operator)
    assert (stopped.isr, stopped.eligible.elr) == ((1,), (3,))
    brokers[3].start()
    comes_to(operator, lambda it: it.leader == 3, "one that is eligible to lead")
    assert described(brokers[3]) == (3, [3], [1])
    brokers[1].start()
    both = {node_id: brokers[node_id] for node_id in (1, 3)}
    assert consume(both, 10) == list(range(10))


def described(server: DrumlinServer) -> tuple[Any, ...]:
    with server.connect() as client:
        answer = client.ask(
            "describe_topic_partitions",
            0,
            topics=[{"name": "t"}],
            response_partition_limit=10,
            cursor=None,
        )
    (partition,) = render(answer)["topics"][0]["partitions"]
    names = "leader_id", "isr_nodes", "eligible_leader_replicas"
    return tuple(partition[each] for each in names)
