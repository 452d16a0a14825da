"""From one broker to many: a single server's data goes into ZooKeeper, and others join it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, ResourceType

from broker.raw_transactions import RawProducer
from cluster.conftest import MakeBroker
from cluster.test_on_zookeeper import admin, brokers_of, create, produce, read, setting
from drumlin.cli import app
from drumlin.metadata.embedded.database import FILE_NAME
from drumlin.metadata.opening import IN_ZOOKEEPER
from drumlin.metadata.to_zookeeper.stopped_broker import SET_ASIDE
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.messages import render
from rig.waiting import wait_until

pytestmark = [pytest.mark.zookeeper, pytest.mark.clients, pytest.mark.slow]

_BROKER, _GROUP = 4, 32
_SETTINGS = {"offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2"}


@pytest.fixture
def single(make_broker: MakeBroker) -> DrumlinServer:
    """A server that keeps its metadata in its data dir."""
    server = make_broker(_SETTINGS | {"zookeeper.connect": ""}, "single")
    server.start()
    return server


def ids_of(server: DrumlinServer) -> dict[str, tuple[Any, int, int]]:
    """Id, partitions and the highest leader epoch of each topic."""
    with server.connect() as client:
        answer = render(client.ask("metadata", 12, topics=None))
    return {
        each["name"]: (
            each["topic_id"],
            len(each["partitions"]),
            max(one["leader_epoch"] for one in each["partitions"]),
        )
        for each in answer["topics"]
    }


def alter(server: DrumlinServer, kind: int, name: str, key: str, value: str) -> None:
    configs = [{"name": key, "config_operation": 0, "value": value}]
    resources = [{"resource_type": kind, "resource_name": name, "configs": configs}]
    with server.connect() as client:
        answer = render(client.ask("incremental_alter_configs", 1, resources=resources))
    assert [each["error_code"] for each in answer["responses"]] == ["none"]


def commit(server: DrumlinServer, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": server.address, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def committed(server: DrumlinServer, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": server.address, "group.id": group})
    (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=30)
    consumer.close()
    return int(found.offset)


def broker_setting(server: DrumlinServer, key: str) -> str:
    resource = ConfigResource(ResourceType.BROKER, "1")
    client = admin(server)
    (answer,) = client.describe_configs([resource]).values()
    return str(answer.result(30)[key].value)


def group_setting(server: DrumlinServer, group: str, key: str) -> str:
    resources = [{"resource_type": _GROUP, "resource_name": group, "configuration_keys": [key]}]
    with server.connect() as client:
        answer = render(client.ask("describe_configs", 4, resources=resources))
    return str(answer["results"][0]["configs"][0]["value"])


def adopt(data: Path, chroot: str, *more: str) -> int:
    return app.main(["cluster", "adopt", "--data", str(data), "--zookeeper", chroot, *more])


def producer_id(server: DrumlinServer) -> int:
    with server.connect() as client:
        answer = render(
            client.ask("init_producer_id", 4, transactional_id=None, transaction_timeout=1000)
        )
    assert answer["error_code"] == "none"
    return int(answer["producer_id"])


def check_adopting(
    single: DrumlinServer, chroot: str, capsys: pytest.CaptureFixture[str], topics: int
) -> None:
    """Stop it, and have it moved."""
    assert adopt(single.data, chroot, "--yes") == 1
    assert f"log dir {single.data} is in use" in capsys.readouterr().err
    single.stop()
    assert adopt(single.data, chroot, "--dry-run") == 0
    said = capsys.readouterr().out
    assert "where there is no cluster yet" in said
    assert f"{topics} topics with" in said
    assert adopt(single.data, chroot) == 2  # a script has to say --yes
    assert (single.data / FILE_NAME).exists()
    assert adopt(single.data, chroot, "--yes") == 0
    assert not (single.data / FILE_NAME).exists()
    assert (single.data / SET_ASIDE).exists()
    assert (single.data / IN_ZOOKEEPER).read_text() == f"{chroot}\n"
    assert adopt(single.data, chroot, "--yes") == 0
    assert "is there already" in capsys.readouterr().out


@pytest.mark.deep
def test_everything_goes_on(
    single: DrumlinServer,
    make_broker: MakeBroker,
    chroot: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    create(single, "events", 2, retention_ms="-1")
    client = admin(single)
    client.create_partitions([NewPartitions("events", 3)])["events"].result(30)
    create(single, "gone")
    client.delete_topics(["gone"])["gone"].result(30)
    create(single, "t", 2)
    produce(single, "events", *"abc")
    commit(single, "readers", "events", 2)
    alter(single, _BROKER, "1", "log.cleaner.threads", "2")
    alter(single, _BROKER, "", "log.retention.ms", "123456789")
    alter(single, _GROUP, "über/alles", "consumer.session.timeout.ms", "50000")
    open_one = RawProducer(single.connect(), "open")
    open_one.init()
    open_one.add("t", 0)
    assert open_one.send("t", 0)["error_code"] == "none"
    ids, given = ids_of(single), producer_id(single)

    check_adopting(single, chroot, capsys, len(ids))
    single.settings["zookeeper.connect"] = chroot
    single.start()
    now = ids_of(single)
    assert {name: each[:2] for name, each in now.items()} == {
        name: each[:2] for name, each in ids.items()
    }
    assert all(now[name][2] > ids[name][2] for name in ids)
    assert read(single, "events", 3) == ["a", "b", "c"]
    assert setting(single, "events", "retention.ms") == "-1"
    assert broker_setting(single, "log.cleaner.threads") == "2"
    assert broker_setting(single, "log.retention.ms") == "123456789"
    assert group_setting(single, "über/alles", "consumer.session.timeout.ms") == "50000"
    assert committed(single, "readers", "events") == 2
    assert producer_id(single) > given
    open_one.client.close()
    open_one.client = single.connect()
    assert open_one.send("t", 1)["error_code"] == "none"
    open_one.end()
    open_one.client.close()
    create(single, "gone")
    produce(single, "gone", "new")
    assert read(single, "gone", 1) == ["new"]

    other = make_broker(_SETTINGS | {"node.id": "2"}, "other")
    other.start()
    wait_until(lambda: brokers_of(single) == {1, 2}, "both brokers")
    client = AdminClient({"bootstrap.servers": other.address})
    client.create_topics([NewTopic("both", 1, 2)])["both"].result(30)
    producer = Producer({"bootstrap.servers": other.address, "acks": "all"})
    producer.produce("both", "x")
    assert producer.flush(30) == 0
    assert read(other, "both", 1) == ["x"]
    assert read(other, "events", 3) == ["a", "b", "c"]
