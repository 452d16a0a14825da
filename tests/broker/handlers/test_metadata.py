"""Metadata: what Apache Kafka 4.3 answered to the same."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from broker.conftest import Ask
from rig.brokers.drumlin_server import DrumlinServer

Create = Callable[..., str]
TopicName = Callable[[str], str]
NOT_ASKED = -(2**31)


def named(*names: str | None) -> list[dict[str, Any]]:
    return [{"name": name, "topic_id": None} for name in names]


def with_id(topic_id: uuid.UUID | None, name: str | None = None) -> dict[str, Any]:
    return {"name": name, "topic_id": topic_id}


def ask_topics(ask: Ask, topics: Any, version: int = 13, **fields: Any) -> Any:
    fields.setdefault("allow_auto_topic_creation", False)
    return ask("metadata", version, topics=topics, **fields)


def summary(answer: Any) -> list[tuple[Any, ...]]:
    return [
        (each["name"], each["error_code"], len(each["partitions"])) for each in answer["topics"]
    ]


def topic_id(ask: Ask, name: str) -> uuid.UUID:
    found: uuid.UUID = ask_topics(ask, named(name))["topics"][0]["topic_id"]
    return found


def test_a_topic(ask: Ask, create: Create, server: DrumlinServer) -> None:
    name = create(partitions=2)
    answer = ask_topics(ask, named(name))
    assert len(answer.pop("cluster_id")) == 22
    (topic,) = answer["topics"]
    assert isinstance(topic.pop("topic_id"), uuid.UUID)
    partition = {
        "error_code": "none",
        "leader_id": 1,
        "leader_epoch": 0,
        "replica_nodes": [1],
        "isr_nodes": [1],
        "offline_replicas": [],
    }
    assert answer == {
        "throttle_time": 0,
        "brokers": [{"node_id": 1, "host": "127.0.0.1", "port": server.port, "rack": None}],
        "controller_id": 1,
        "topics": [
            {
                "error_code": "none",
                "name": name,
                "is_internal": False,
                "partitions": [{**partition, "partition_index": index} for index in (0, 1)],
                "topic_authorized_operations": NOT_ASKED,
            }
        ],
        "error_code": "none",
    }


@pytest.mark.parametrize("version", range(14))
def test_every_version(ask: Ask, create: Create, version: int) -> None:
    name = create(partitions=2)
    assert summary(ask_topics(ask, named(name), version)) == [(name, "none", 2)]


def test_null_and_empty_lists(ask: Ask, create: Create) -> None:
    name = create()
    assert name in [each["name"] for each in ask_topics(ask, None)["topics"]]
    assert name in [each["name"] for each in ask_topics(ask, [], version=0)["topics"]]
    for version in (1, 13):
        assert ask_topics(ask, [], version)["topics"] == []


def test_odd_names(ask: Ask, create: Create) -> None:
    name = create()
    answer = ask_topics(ask, named("a b", "", "nowhere", name, name, "a b"))
    assert summary(answer) == [
        (name, "none", 1),
        ("a b", "invalid_topic_exception", 0),
        ("", "invalid_topic_exception", 0),
        ("nowhere", "unknown_topic_or_partition", 0),
    ]


def test_by_id(ask: Ask, create: Create) -> None:
    name, other = create("t"), create("other")
    its_id, unknown = topic_id(ask, name), uuid.uuid4()
    assert summary(ask_topics(ask, [with_id(its_id), with_id(its_id)])) == [(name, "none", 1)]
    answer = ask_topics(ask, [with_id(its_id), with_id(unknown)])
    assert summary(answer) == [(None, "unknown_topic_id", 0), (name, "none", 1)]
    assert answer["topics"][0]["topic_id"] == unknown
    # Where one topic has an id, names are passed over.
    assert summary(ask_topics(ask, [*named(other), with_id(its_id)])) == [(name, "none", 1)]
    assert summary(ask_topics(ask, [with_id(its_id, other)])) == [(name, "none", 1)]


@pytest.mark.parametrize("version", [10, 11])
def test_ids_before_their_time_refuse_all(ask: Ask, create: Create, version: int) -> None:
    name = create()
    its_id = topic_id(ask, name)
    answer = ask_topics(ask, [with_id(its_id, ""), *named(name)], version)
    assert answer["brokers"] == []
    assert (answer["cluster_id"], answer["controller_id"]) == (None, -1)
    assert summary(answer) == [("", "invalid_request", 0), (name, "invalid_request", 0)]
    assert answer["topics"][0]["topic_id"] == its_id


def test_neither_name_nor_id_refuses_all(ask: Ask) -> None:
    answer = ask_topics(ask, named(None))
    assert answer["error_code"] == "unknown_server_error"
    assert summary(answer) == [("", "unknown_server_error", 0)]


def test_authorized_operations(ask: Ask, create: Create) -> None:
    name = create()
    asked = {
        "include_topic_authorized_operations": True,
        "include_cluster_authorized_operations": True,
    }
    for version in range(8, 14):
        fields = dict(asked)
        if version > 10:
            del fields["include_cluster_authorized_operations"]
        answer = ask_topics(ask, named(name, "nowhere"), version, **fields)
        assert [each["topic_authorized_operations"] for each in answer["topics"]] == [3576, 3576]
        assert answer.get("cluster_authorized_operations", 8096) == 8096


def test_automatic_creation(ask: Ask, topic_name: TopicName) -> None:
    name = topic_name("automatic")
    answer = ask_topics(ask, named(name, "a b", name), allow_auto_topic_creation=True)
    assert summary(answer) == [
        (name, "unknown_topic_or_partition", 0),
        ("a b", "invalid_topic_exception", 0),
    ]
    assert summary(ask_topics(ask, named(name))) == [(name, "none", 1)]


def test_versions_that_could_not_forbid_it_create(ask: Ask, topic_name: TopicName) -> None:
    name = topic_name("automatic")
    ask("metadata", 3, topics=[{"name": name}])
    assert summary(ask_topics(ask, named(name))) == [(name, "none", 1)]


def test_a_colliding_name_is_not_created(ask: Ask, create: Create) -> None:
    other = create("with.dot").replace(".", "_")
    for _ in range(2):
        answer = ask_topics(ask, named(other), allow_auto_topic_creation=True)
        assert summary(answer) == [(other, "unknown_topic_or_partition", 0)]


def test_internal_topics(ask: Ask) -> None:
    ask_topics(
        ask, named("__consumer_offsets", "__transaction_state"), allow_auto_topic_creation=True
    )
    answer = ask_topics(ask, named("__consumer_offsets", "__transaction_state"))
    assert summary(answer) == [
        ("__consumer_offsets", "none", 2),
        ("__transaction_state", "none", 50),
    ]
    assert [each["is_internal"] for each in answer["topics"]] == [True, True]
    resource = {
        "resource_type": 2,
        "resource_name": "__consumer_offsets",
        "configuration_keys": ["cleanup.policy", "segment.bytes"],
    }
    (described,) = ask("describe_configs", 4, resources=[resource])["results"]
    assert {each["name"]: each["value"] for each in described["configs"]} == {
        "cleanup.policy": "compact",
        "segment.bytes": "104857600",
    }


def test_creation_can_be_switched_off(tmp_path: Any) -> None:
    from rig.data.messages import render

    server = DrumlinServer(tmp_path, {"auto.create.topics.enable": "false"})
    server.start()
    try:
        with server.connect() as client:
            for _ in range(2):
                answer = client.ask(
                    "metadata", 9, topics=[{"name": "t"}], allow_auto_topic_creation=True
                )
                assert summary(render(answer)) == [("t", "unknown_topic_or_partition", 0)]
    finally:
        server.close()
