"""Znodes, byte for byte as Apache Kafka 3.9.1 has written them, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from drumlin.metadata.image import (
    NO_LEADER,
    NO_LOG,
    BrokerState,
    Endpoint,
    LastKnown,
    LogEnd,
    PartitionId,
    Resource,
    ResourceType,
)
from drumlin.metadata.store.store import ProducerIdBlock
from drumlin.metadata.zookeeper.znodes import layout, own_layout
from drumlin.metadata.zookeeper.znodes.eligible_json import Eligible
from drumlin.metadata.zookeeper.znodes.layout import StateNode, TopicNode, UnreadableNode
from drumlin.metadata.zookeeper.znodes.own_layout import ChangedState
from drumlin.storage.directory.partition_metadata import decode_uuid

BROKER = (
    b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
    b'"endpoints":["PLAINTEXT://127.0.0.1:23774"],"rack":"r1","jmx_port":-1,"port":23774,'
    b'"host":"127.0.0.1","version":5,"timestamp":"1795552093675"}'
)
TOPIC = (
    b'{"partitions":{"0":[1],"1":[1],"2":[1]},"topic_id":"96f_JYIUTomBDxJwric8lw",'
    b'"adding_replicas":{},"removing_replicas":{},"version":3}'
)
STATE = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}'
CONFIG = b'{"version":1,"config":{"cleanup.policy":"compact","retention.ms":"5"}}'
CONTROLLER = b'{"version":2,"brokerid":1,"timestamp":"1795552094089","kraftControllerEpoch":-1}'
PRODUCER_IDS = b'{"version":1,"broker":1,"block_start":"0","block_end":"999"}'
CLUSTER_ID = b'{"version":"1","id":"RtkuWF8rTGuYmQdMeMmJBg"}'


def test_what_kafka_writes_is_written() -> None:
    endpoint = Endpoint("PLAINTEXT", "127.0.0.1", 23774)
    broker = BrokerState(1, "r1", (endpoint,))
    assert layout.encode_broker(broker, 1795552093675) == BROKER
    topic_id = decode_uuid("96f_JYIUTomBDxJwric8lw")
    assert layout.encode_topic(topic_id, [(1,)] * 3) == TOPIC
    assert layout.encode_state(StateNode(1, 0, (1,), 1)) == STATE
    assert layout.encode_configs({"cleanup.policy": "compact", "retention.ms": "5"}) == CONFIG
    assert layout.encode_controller(1, 1795552094089) == CONTROLLER
    assert layout.encode_controller_epoch(1) == b"1"
    assert layout.encode_producer_ids(1, ProducerIdBlock(0, 1000)) == PRODUCER_IDS
    assert layout.encode_cluster_id("RtkuWF8rTGuYmQdMeMmJBg") == CLUSTER_ID


def test_what_kafka_writes_is_read() -> None:
    topic_id = decode_uuid("96f_JYIUTomBDxJwric8lw")
    assert layout.decode_topic("/t", TOPIC) == TopicNode(topic_id, ((1,),) * 3)
    assert layout.decode_state("/s", STATE) == StateNode(1, 0, (1,), 1)
    assert layout.decode_configs("/c", CONFIG) == {"cleanup.policy": "compact", "retention.ms": "5"}
    assert layout.decode_controller_epoch(b"1") == 1
    assert layout.decode_producer_ids(PRODUCER_IDS) == 999
    assert layout.decode_producer_ids(b"") == -1  # as Kafka makes it at its start
    assert layout.decode_cluster_id(CLUSTER_ID) == "RtkuWF8rTGuYmQdMeMmJBg"


@pytest.mark.parametrize(
    ("resource", "entity"),
    [
        (Resource(ResourceType.TOPIC, "plain"), "topics/plain"),
        (Resource(ResourceType.BROKER, "1"), "brokers/1"),
        (Resource(ResourceType.BROKER, ""), "brokers/<default>"),
        (Resource(ResourceType.GROUP, "a/b. é"), "groups/a%2Fb%2E%20%C3%A9"),
        (Resource(ResourceType.CLIENT_METRICS, "a/b. é"), "client-metrics/a%2Fb%2E%20%C3%A9"),
    ],
)
def test_a_change_of_a_configuration_is_told_of(resource: Resource, entity: str) -> None:
    data = b'{"version":2,"entity_path":"%b"}' % entity.encode()
    assert layout.encode_config_change(resource) == data
    assert layout.decode_config_change("/c", data) == [resource]
    assert layout.config_path(resource) == f"/config/{entity}"
    kind, _, name = entity.partition("/")
    kinds = layout.config_kinds()
    assert layout.resource_named(kinds[f"/config/{kind}"], name) == resource


def test_changes_of_an_older_version_and_of_no_concern() -> None:
    old = b'{"version":1,"entity_type":"topics","entity_name":"t"}'
    assert layout.decode_config_change("/c", old) == [Resource(ResourceType.TOPIC, "t")]
    other = b'{"version":2,"entity_path":"things/alice"}'
    assert layout.decode_config_change("/c", other) == []


def test_folders_of_deleted_topics() -> None:
    folders: dict[int, tuple[str, ...] | None] = {1: None, 2: ("/a", "/b"), 3: ()}
    data = layout.encode_folders(folders)
    assert data == b'{"version":1,"folders":{"1":null,"2":["/a","/b"],"3":[]}}'
    assert layout.decode_folders("/d", data) == folders


def test_a_topic_of_an_older_version() -> None:
    data = b'{"version":1,"partitions":{"1":[2],"0":[1,2]}}'
    assert layout.decode_topic("/t", data) == TopicNode(None, ((1, 2), (2,)))


_GARBAGE = [b"", b"\xff", b"[" * 100_000, b"null", b"[]", b'{"version":9}', b'{"version":1}']


@pytest.mark.parametrize("data", _GARBAGE, ids=lambda data: repr(data[:9]))
@pytest.mark.parametrize(
    "decode",
    [layout.decode_topic, layout.decode_state, layout.decode_configs, layout.decode_folders],
)
def test_garbage_is_told_of_with_its_node(decode: Callable[[str, bytes], Any], data: bytes) -> None:
    with pytest.raises(UnreadableNode, match="ZooKeeper's /the/node cannot be used: "):
        decode("/the/node", data)


@pytest.mark.parametrize(
    "data",
    [
        b'{"version":4,"partitions":{"0":[1]},"topic_id":"96f_JYIUTomBDxJwric8lw"}',
        b'{"version":3,"partitions":{"0":[1]},"topic_id":"short"}',
        b'{"version":3,"partitions":{"0":[1]},"topic_id":5}',
        b'{"version":3,"partitions":{"0":[1],"2":[1]}}',
        b'{"version":3,"partitions":{"-1":[1]}}',
        b'{"version":3,"partitions":{"0":["1"]}}',
        b'{"version":3,"partitions":{"0":[true]}}',
        b'{"version":3,"partitions":[]}',
        b'{"version":3,"partitions":{"0":[2147483648]}}',
        b'{"version":3,"partitions":{"0":[-5]}}',
        b'{"version":3,"partitions":{"0":[1,1]}}',
        b'{"version":3,"partitions":{"0":[1]},"topic_id":"AAAAAAAAAAAAAAAAAAAAAA"}',
        b'{"version":3,"partitions":{"0":[1]},"topic_id":"AAAAAAAAAAAAAAAAAAAAAQ"}',
    ],
)
def test_topics_that_make_no_sense(data: bytes) -> None:
    with pytest.raises(UnreadableNode, match="/t cannot be used"):
        layout.decode_topic("/t", data)


@pytest.mark.parametrize(
    "fields",
    [
        '"leader":2147483648,"leader_epoch":0,"isr":[1]',
        '"leader":-2,"leader_epoch":0,"isr":[1]',
        '"leader":1,"leader_epoch":2147483647,"isr":[1]',
        '"leader":1,"leader_epoch":-1,"isr":[1]',
        '"leader":1,"leader_epoch":0,"isr":[1,2147483648]',
        '"leader":1,"leader_epoch":0,"isr":[1,1]',
    ],
)
def test_states_that_no_client_could_be_told_of(fields: str) -> None:
    with pytest.raises(UnreadableNode, match="/s cannot be used"):
        layout.decode_state("/s", f'{{"version":1,{fields}}}'.encode())


@pytest.mark.parametrize(
    "eligible",
    [
        Eligible(elr=(2, 3)),
        Eligible(last_known=(LastKnown(2, LogEnd(4, 10), True), LastKnown(3, NO_LOG, False))),
        Eligible(last_leader=2),
    ],
)
def test_who_may_lead_besides_the_isr_is_read_back(eligible: Eligible) -> None:
    """It must outlast a power cut of all brokers."""
    state = StateNode(NO_LEADER, 4, (1,), 1, eligible)
    assert layout.decode_state("/s", layout.encode_state(state)) == state


def test_half_a_character_is_no_text() -> None:
    whole = b'{"version":1,"config":{"a":"\\ud83d\\ude00"}}'
    assert layout.decode_configs("/c", whole) == {"a": "\U0001f600"}
    for half in (b'{"a":"\\ud83d"}', b'{"\\uDE00":"a"}'):
        with pytest.raises(UnreadableNode, match="/c cannot be used"):
            layout.decode_configs("/c", b'{"version":1,"config":' + half + b"}")


@pytest.mark.parametrize("data", [b"x", b"-1", b"1" * 30, b"", b"2147483647"])
def test_no_controller_epoch(data: bytes) -> None:
    with pytest.raises(UnreadableNode, match="/controller_epoch"):
        layout.decode_controller_epoch(data)


def test_no_producer_ids_and_no_change() -> None:
    with pytest.raises(UnreadableNode, match="/latest_producer_id_block"):
        layout.decode_producer_ids(b'{"version":1,"block_end":"x"}')
    with pytest.raises(UnreadableNode, match="/latest_producer_id_block"):
        layout.decode_producer_ids(b'{"version":1,"block_end":"9223372036854775807"}')
    with pytest.raises(UnreadableNode, match="/c cannot"):
        layout.decode_config_change("/c", b'{"version":2}')


def test_brokers_are_read() -> None:
    endpoint = Endpoint("PLAINTEXT", "127.0.0.1", 23774)
    assert layout.decode_broker("/b", 1, BROKER) == BrokerState(1, "r1", (endpoint,))
    outside = Endpoint("OUTSIDE", "::1", 9092, "SASL_SSL")
    broker = BrokerState(2, None, (endpoint, outside))
    assert layout.decode_broker("/b", 2, layout.encode_broker(broker, 5)) == broker
    assert layout.decode_controller(CONTROLLER) == 1


@pytest.mark.parametrize(
    "endpoints", ["5", '["PLAINTEXT"]', '["PLAINTEXT://host:port"]', '["A://b:65536"]', "[5]"]
)
def test_brokers_that_cannot_be_reached(endpoints: str) -> None:
    with pytest.raises(UnreadableNode, match="/b cannot be used"):
        layout.decode_broker("/b", 1, f'{{"version":5,"endpoints":{endpoints}}}'.encode())


def test_the_session_of_a_broker() -> None:
    data = own_layout.encode_broker_epoch(0x1000A)
    assert data == b'{"version":1,"session":"1000a"}'
    assert own_layout.decode_broker_epoch("/e", data) == 0x1000A
    for garbage in (b"", b'{"version":1}', b'{"version":1,"session":"x"}'):
        with pytest.raises(UnreadableNode, match="/e cannot be used"):
            own_layout.decode_broker_epoch("/e", garbage)


def test_news_of_states() -> None:
    first, second = decode_uuid("96f_JYIUTomBDxJwric8lw"), UUID(int=7)
    changed = {
        PartitionId(first, 0): ChangedState(1, 2, (1, 3), 4),
        PartitionId(second, 9): ChangedState(-1, 5, (2,), 6),
        PartitionId(first, 3): ChangedState(1, 0, (1,), 0),
    }
    data = own_layout.encode_state_news(changed.items())
    assert data.startswith(b'{"version":1,"topics":{"96f_JYIUTomBDxJwric8lw":[[0,1,2,4,[1,3]],')
    assert own_layout.decode_state_news("/n", data) == changed


@pytest.mark.parametrize(
    "topics",
    [
        "[]",
        '{"short":[]}',
        '{"96f_JYIUTomBDxJwric8lw":5}',
        '{"96f_JYIUTomBDxJwric8lw":[[0,1,2,4]]}',
        '{"96f_JYIUTomBDxJwric8lw":[[0,-2,2,4,[1]]]}',
        '{"96f_JYIUTomBDxJwric8lw":[[0,1,2,4,[1,1]]]}',
    ],
)
def test_news_that_makes_no_sense(topics: str) -> None:
    with pytest.raises(UnreadableNode, match="/n cannot be used"):
        own_layout.decode_state_news("/n", f'{{"version":1,"topics":{topics}}}'.encode())
