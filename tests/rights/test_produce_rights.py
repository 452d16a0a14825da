"""Produce as a user: what is written to, and under which transactional id."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from broker.raw_transactions import RawProducer
from drumlin.broker.rights.acls import Kind, Operation
from rig.brokers.secured_drumlin import SecuredDrumlin
from rig.data.batches import batch
from rig.data.raw import Closed, RawClient
from rights.granted import create_topic, granted

_WRITE = (Kind.TOPIC, Operation.WRITE)
_USE = (Kind.TRANSACTIONAL_ID, Operation.WRITE)
_UNKNOWN, _INTERNAL, _TAF, _XAF, _UNKNOWN_ID = 3, 17, 29, 53, 100
_TOPIC = "a-written"


@pytest.fixture(autouse=True)
def topic(secured: SecuredDrumlin) -> None:
    create_topic(secured, _TOPIC)


def _codes(client: RawClient, version: int, *topics: dict[str, Any], acks: int = 1) -> list[int]:
    part = {"index": 0, "records": batch(b"v")}
    asked = [{"partition_data": [part], **topic} for topic in topics]
    answer = client.ask("produce", version, acks=acks, timeout=5000, topic_data=asked)
    return [part.error_code for topic in answer.responses for part in topic.partition_responses]


def _end_offset(secured: SecuredDrumlin) -> int:
    part = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
    topics = [{"name": _TOPIC, "partitions": [part]}]
    with secured.connect() as root:
        answer = root.ask("list_offsets", 7, replica_id=-1, topics=topics)
    offset: int = answer.topics[0].partitions[0].offset
    return offset


def test_nothing_is_written_without_the_right(secured: SecuredDrumlin) -> None:
    before = _end_offset(secured)
    with secured.login("alice") as alice:
        assert _codes(alice, 9, {"name": _TOPIC}, {"name": "nowhere"}) == [_TAF, _TAF]
        with granted(secured, (Kind.TOPIC, Operation.READ)):
            assert _codes(alice, 9, {"name": _TOPIC}) == [_TAF]
        assert _end_offset(secured) == before
        with granted(secured, _WRITE):
            assert _codes(alice, 9, {"name": _TOPIC}, {"name": "nowhere"}) == [0, _TAF]
        assert _end_offset(secured) == before + 1


def test_by_id(secured: SecuredDrumlin) -> None:
    with secured.connect() as root, secured.login("alice") as alice:
        (topic,) = root.ask("metadata", 12, topics=[{"name": _TOPIC}]).topics
        known, unknown = {"topic_id": topic.topic_id}, {"topic_id": UUID(int=5)}
        assert _codes(alice, 13, known, unknown) == [_TAF, _UNKNOWN_ID]
        with granted(secured, _WRITE):
            assert _codes(alice, 13, known, unknown) == [0, _UNKNOWN_ID]


def test_without_answer_the_connection_is_closed(secured: SecuredDrumlin) -> None:
    before = _end_offset(secured)
    with secured.login("alice") as alice, pytest.raises(Closed):
        _codes(alice, 9, {"name": _TOPIC}, acks=0)
    assert _end_offset(secured) == before


def test_an_internal_topic_is_denied_before_it_is_refused(secured: SecuredDrumlin) -> None:
    with secured.login("alice") as alice, secured.connect() as root:
        create_topic(secured, "__consumer_offsets")
        alice.client_id = root.client_id = "__admin_client"  # a client id is no right
        assert _codes(alice, 9, {"name": "__consumer_offsets"}) == [_TAF]
        alice.client_id = root.client_id = "raw"
        assert _codes(alice, 9, {"name": "__consumer_offsets"}) == [_TAF]
        assert _codes(root, 9, {"name": "__consumer_offsets"}) == [_INTERNAL]


def test_very_many_topics(secured: SecuredDrumlin) -> None:
    topics = [{"name": f"a-nowhere-{each}"} for each in range(300)]
    with secured.login("alice") as alice:
        assert _codes(alice, 9, {"name": _TOPIC}, *topics) == [_TAF] * 301
        with granted(secured, _WRITE):
            assert _codes(alice, 9, {"name": _TOPIC}, *topics) == [0, *[_UNKNOWN] * 300]


def test_what_a_thread_checks_is_asked_about_again(secured: SecuredDrumlin) -> None:
    """Compressed batches wait for a thread before they are appended."""
    part = {"index": 0, "records": batch(b"v" * 100_000, codec="gzip")}
    asked = [{"name": _TOPIC, "partition_data": [part]}]
    before = _end_offset(secured)
    with secured.login("alice") as alice:
        answer = alice.ask("produce", 9, acks=1, timeout=5000, topic_data=asked)
        assert answer.responses[0].partition_responses[0].error_code == _TAF
        assert _end_offset(secured) == before
        with granted(secured, _WRITE):
            answer = alice.ask("produce", 9, acks=1, timeout=5000, topic_data=asked)
            assert answer.responses[0].partition_responses[0].error_code == 0


@pytest.mark.parametrize("version", [11, 12])
def test_a_transactional_id(secured: SecuredDrumlin, version: int) -> None:
    with secured.connect() as root, secured.login("alice") as alice:
        producer = RawProducer(root, "a-transaction", version)
        producer.init()
        if not producer.is_v2:
            producer.add(_TOPIC, 0)
        request = producer.request(_TOPIC, 0)

        def code(**fields: Any) -> int:
            answer = alice.ask("produce", version, **request | fields)
            return int(answer.responses[0].partition_responses[0].error_code)

        for rights in ([], [_WRITE], [(Kind.TRANSACTIONAL_ID, Operation.DESCRIBE), _WRITE]):
            with granted(secured, *rights):
                assert code() == _XAF
        with granted(secured, _USE):
            assert code() == _TAF
            assert code(transactional_id=None) == _XAF
            assert code(transactional_id="of-another") == _XAF
        with granted(secured, _USE, _WRITE):
            assert code() == 0
        producer.end(commit=False)
