"""What an operator sees of a server of several brokers, at one address and by one socket."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from machine.clients import admin, create, leaders, produce
from machine.conftest import MakeServer
from rig.brokers.machine_server import MachineServer
from rig.brokers.prometheus import scrape
from rig.ports import free_ports
from rig.waiting import wait_until

pytestmark = [pytest.mark.clients, pytest.mark.slow]

VALUES = [str(each % 50) for each in range(1000)]


def compaction(server: MachineServer, *arguments: str, may_fail: bool = False) -> Any:
    """What `drumlin compaction` says."""
    command = [sys.executable, "-m", "drumlin", "compaction", *arguments, "--json"]
    done = subprocess.run(
        [*command, "--data", str(server.data)], capture_output=True, text=True, timeout=90
    )
    assert may_fail or done.returncode == 0, done.stderr + done.stdout
    return json.loads(done.stdout)


def test_one_address_has_the_metrics_of_all(make_server: MakeServer) -> None:
    port = free_ports(1)[0]
    server = make_server({"drumlin.metrics.listener": f"127.0.0.1:{port}"})
    server.start_brokers(2)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as page:
        text = page.read().decode()
    turns = re.findall(r'^drumlin_event_loop_turns_total\{broker="(\d)"\} \d', text, re.MULTILINE)
    assert turns == ["1", "2"]
    assert text.count("# TYPE drumlin_event_loop_turns_total") == 1
    for path in ("health", "ready"):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=30) as page:
            assert set(json.loads(page.read())["brokers"]) == {"1", "2"}
    command = [sys.executable, "-m", "drumlin", "clock", "trust", "--data", str(server.data)]
    rows = subprocess.run(command, capture_output=True, text=True, timeout=90).stdout.splitlines()
    assert [(row[0], row[-1]) for row in (each.split("\t") for each in rows)] == [
        ("1", "counts"),
        ("2", "counts"),
    ]
    server.stop()


@pytest.mark.deep
def test_a_group_lags_in_partitions_of_all_brokers(make_server: MakeServer) -> None:
    port = free_ports(1)[0]
    server = make_server({"drumlin.metrics.listener": f"127.0.0.1:{port}"})
    server.start_brokers(2)
    create(server, "t", 4, replicas=1)
    assert len(set(leaders(server, "t"))) == 2
    produce(server, "t", VALUES)
    settings = {"bootstrap.servers": server.addresses, "group.id": "g"}
    with closing(Consumer(settings)) as member:
        at_start = [TopicPartition("t", each, 0) for each in range(4)]
        member.commit(offsets=at_start, asynchronous=False)
    lags = {name: value for name, value in scrape(port).items() if "group_lag_records" in name}
    assert list(lags.values()) == [len(VALUES)], lags
    server.stop()


@pytest.mark.deep
def test_elections_are_counted_when_a_broker_is_killed(make_server: MakeServer) -> None:
    port = free_ports(1)[0]
    server = make_server({"drumlin.metrics.listener": f"127.0.0.1:{port}"})
    server.start_brokers(2)
    create(server, "t", 4, replicas=2)
    known = scrape(port)
    assert known["drumlin_controller_elections_total"] == 0
    assert known["drumlin_controller_election_seconds_total"] == 0
    server.kill_workers([2])()
    wait_until(lambda: scrape(port)["drumlin_controller_elections_total"] == 2, "two elections")
    known = scrape(port)
    assert known["drumlin_controller_election_seconds_total"] > 0
    assert known["drumlin_controller_unclean_elections_total"] == 0
    wait_until(lambda: scrape(port)["drumlin_controller_queue"] == 0, "nothing left to decide")
    server.stop()


def test_compaction_is_asked_of_all_brokers(make_server: MakeServer) -> None:
    server = make_server({"log.cleaner.threads": "1", "log.retention.check.interval.ms": "600000"})
    server.start_brokers(2)
    client = admin(server)
    compacted = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0"}
    topic = NewTopic("compacted", 4, 1, config=compacted)
    client.create_topics([topic])["compacted"].result(timeout=60)
    produce(server, "compacted", VALUES)
    rows = compaction(server, "status", "compacted")["partitions"]
    assert [each["partition"] for each in rows] == [0, 1, 2, 3]
    assert [each["broker"] for each in rows] == leaders(server, "compacted")
    results = compaction(server, "run", "compacted", "--roll")["results"]
    assert sum(each["cleaning"]["records_read"] for each in results) == len(VALUES)
    (one,) = compaction(server, "simulate", "compacted", "--partition", "2")["results"]
    assert one["partition"] == 2
    status = compaction(server, "status", "compacted")
    assert status["totals"]["cleanings"] >= 4
    server.stop()
    # Without a server, the files of all brokers say it.
    rows = compaction(server, "status", "compacted")["partitions"]
    assert sorted(each["partition"] for each in rows) == [0, 1, 2, 3]


@pytest.mark.deep
def test_compaction_of_replicas(make_server: MakeServer) -> None:
    server = make_server()
    server.start_brokers(2)
    client = admin(server)
    topic = NewTopic("compacted", 1, 2, config={"cleanup.policy": "compact"})
    client.create_topics([topic])["compacted"].result(timeout=60)
    produce(server, "compacted", VALUES)

    def are_clean() -> bool:
        """A follower hears a moment later than its leader what is committed, and can be cleaned."""
        results = compaction(server, "run", "compacted", "--roll", may_fail=True)["results"]
        assert [(each["partition"], each["broker"]) for each in results] == [(0, 1), (0, 2)]
        rows = compaction(server, "status", "compacted")["partitions"]
        assert [(each["partition"], each["broker"]) for each in rows] == [(0, 1), (0, 2)]
        return all(each["tail_bytes"] and not each["head_bytes"] for each in rows)

    wait_until(are_clean, "both replicas to be clean", 60)
    server.stop()


def test_configurations_hold_for_all_brokers(make_server: MakeServer) -> None:
    server = make_server()
    server.start_brokers(2)
    create(server, "t", 2)
    change = ConfigEntry("retention.ms", "12345", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "t", incremental_configs=[change])
    clients = [
        AdminClient({"bootstrap.servers": f"127.0.0.1:{server.port + each}"}) for each in (0, 1)
    ]
    clients[1].incremental_alter_configs([resource])[resource].result(timeout=30)

    def is_known() -> bool:
        asked = [
            client.describe_configs([ConfigResource(ResourceType.TOPIC, "t")]) for client in clients
        ]
        found = [next(iter(each.values())).result(timeout=30) for each in asked]
        return all(each["retention.ms"].value == "12345" for each in found)

    wait_until(is_known, "both brokers to know the configuration")
    server.stop()


@pytest.mark.deep
def test_a_deleted_topic_leaves_nothing_with_any_broker(make_server: MakeServer) -> None:
    server = make_server({"log.segment.delete.delay.ms": "1"})
    server.start_brokers(2)
    create(server, "t", 4)
    client = admin(server)
    client.delete_topics(["t"])["t"].result(timeout=30)

    def is_gone() -> bool:
        return not [*server.data.glob("t-*"), *server.data.glob(".brokers/2/t-*")]

    wait_until(is_gone, "all folders of the topic to be removed")
    create(server, "t", 4)
    assert sorted(leaders(server, "t")) == [1, 1, 2, 2]
    server.stop()
