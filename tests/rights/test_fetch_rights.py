"""Fetch as a user: what is read is asked about in each request, and when a fetch wakes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from broker.raw_transactions import RawProducer
from drumlin.broker.rights.acls import Kind, Operation
from rig.brokers.secured_drumlin import SecuredDrumlin
from rig.data.batches import batch
from rig.data.raw import RawClient
from rights.granted import create_topic, granted

_READ = (Kind.TOPIC, Operation.READ)
_TAF, _UNKNOWN_ID, _NO_SESSION = 29, 100, 70
_TOPICS = ("a-read", "a-read-too")


@pytest.fixture(autouse=True)
def topics(secured: SecuredDrumlin) -> None:
    for name in _TOPICS:
        create_topic(secured, name)
        produce(secured, name)


def produce(secured: SecuredDrumlin, name: str) -> None:
    with secured.connect() as root:
        part = {"index": 0, "records": batch(b"v")}
        topic = {"name": name, "partition_data": [part]}
        answer = root.ask("produce", 9, acks=1, timeout=1000, topic_data=[topic])
        assert answer.responses[0].partition_responses[0].error_code == 0


def _request(names: tuple[str, ...] = _TOPICS, **fields: Any) -> dict[str, Any]:
    part = {"partition": 0, "current_leader_epoch": -1, "fetch_offset": 0, "log_start_offset": -1}
    part |= {"partition_max_bytes": 1 << 20, "last_fetched_epoch": -1}
    return {
        "replica_id": -1,
        "max_wait": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "session_epoch": -1,
        "topics": [{"topic": name, "partitions": [part]} for name in names],
        **fields,
    }


def fetch(client: RawClient, **fields: Any) -> Any:
    return client.ask("fetch", 12, **_request(**fields))


def told(answer: Any) -> dict[str, tuple[int, bool]]:
    """The error of each topic, and whether it has records."""
    assert answer.error_code == 0, answer
    return {
        topic.topic: (topic.partitions[0].error_code, bool(topic.partitions[0].records))
        for topic in answer.responses
    }


def _all(code: int, has_records: bool) -> dict[str, tuple[int, bool]]:
    return dict.fromkeys(_TOPICS, (code, has_records))


def test_a_session_tells_in_every_answer_what_may_not_be_read(secured: SecuredDrumlin) -> None:
    with secured.login("alice") as alice:
        with granted(secured, _READ):
            answer = fetch(alice, session_epoch=0)
            session = answer.session_id
            assert session
            assert told(answer) == _all(0, True)
        for epoch in range(1, 4):
            answer = fetch(alice, names=(), session_id=session, session_epoch=epoch)
            assert told(answer) == _all(_TAF, False)
        with granted(secured, _READ):
            answer = fetch(alice, names=(), session_id=session, session_epoch=4)
            assert told(answer) == _all(0, True)


def test_a_session_that_begins_without_rights(secured: SecuredDrumlin) -> None:
    with secured.login("alice") as alice:
        answer = fetch(alice, session_epoch=0)
        assert told(answer) == _all(_TAF, False)
        with granted(secured, _READ):
            session = answer.session_id
            answer = fetch(alice, names=(), session_id=session, session_epoch=1)
            assert told(answer) == _all(0, True)


def test_a_session_that_has_read_all_tells_that_its_right_is_gone(secured: SecuredDrumlin) -> None:
    with secured.login("alice") as alice:
        with granted(secured, _READ):
            session = fetch(alice, session_epoch=0).session_id
            ends = _at_the_end(secured)
            answer = alice.ask("fetch", 12, **ends | {"session_id": session, "session_epoch": 1})
            assert told(answer) == {}
        answer = fetch(alice, names=(), session_id=session, session_epoch=2)
        assert told(answer) == _all(_TAF, False)


def _at_the_end(secured: SecuredDrumlin) -> dict[str, Any]:
    request = _request()
    with secured.connect() as root:
        for topic in fetch(root).responses:
            (asked,) = (each for each in request["topics"] if each["topic"] == topic.topic)
            asked["partitions"] = [
                asked["partitions"][0] | {"fetch_offset": topic.partitions[0].high_watermark}
            ]
    return request


@pytest.mark.parametrize("epoch", [-1, 0])
def test_a_waiting_fetch_is_asked_again_when_it_wakes(secured: SecuredDrumlin, epoch: int) -> None:
    request = _at_the_end(secured) | {"max_wait": 20_000, "min_bytes": 1, "session_epoch": epoch}
    with secured.login("alice") as alice:
        with granted(secured, _READ):
            if epoch == 0:  # its first answer is not empty
                session = alice.ask("fetch", 12, **request | {"max_wait": 0}).session_id
                request |= {"topics": [], "session_id": session, "session_epoch": 1}
            alice.send("fetch", 12, **request)
            fetch(alice_elsewhere := secured.login("alice"))
            alice_elsewhere.close()
        produce(secured, _TOPICS[0])
        answer = told(alice.receive("fetch", 12))
        assert answer == _all(_TAF, False)


def test_a_session_is_of_nobody_else(secured: SecuredDrumlin) -> None:
    with secured.login("alice") as alice, secured.connect() as thief, granted(secured, _READ):
        session = fetch(alice, session_epoch=0).session_id
        stolen = fetch(thief, names=(), session_id=session, session_epoch=1)
        assert (stolen.error_code, stolen.responses) == (_NO_SESSION, ())
        for epoch in (0, -1):  # nor does a full fetch end it
            assert told(fetch(thief, session_id=session, session_epoch=epoch)) == _all(0, True)
        answer = fetch(alice, names=(), session_id=session, session_epoch=1)
        assert answer.error_code == 0
        # On another connection it is alice's as well.
        with secured.login("alice") as again:
            answer = fetch(again, names=(), session_id=session, session_epoch=2)
            assert answer.error_code == 0


def test_a_session_that_is_in_use_is_of_nobody_else(secured: SecuredDrumlin) -> None:
    with secured.login("alice") as alice, secured.connect() as thief, granted(secured, _READ):
        session = fetch(alice, session_epoch=0).session_id
        request = _at_the_end(secured) | {"max_wait": 20_000, "min_bytes": 1}
        alice.send("fetch", 12, **request | {"session_id": session, "session_epoch": 1})
        for epoch in (1, 2, 3):
            stolen = fetch(thief, names=(), session_id=session, session_epoch=epoch)
            assert stolen.error_code == _NO_SESSION
        produce(secured, _TOPICS[0])
        assert told(alice.receive("fetch", 12))[_TOPICS[0]] == (0, True)


def test_by_id(secured: SecuredDrumlin) -> None:
    with secured.connect() as root, secured.login("alice") as alice:
        (topic,) = root.ask("metadata", 12, topics=[{"name": _TOPICS[0]}]).topics
        request = _request((_TOPICS[0], "nowhere"))
        for each, topic_id in zip(request["topics"], (topic.topic_id, UUID(int=5)), strict=True):
            each["topic_id"] = topic_id

        def codes() -> list[int]:
            answer = alice.ask("fetch", 13, **request)
            return [each.partitions[0].error_code for each in answer.responses]

        assert codes() == [_TAF, _UNKNOWN_ID]
        with granted(secured, _READ):
            assert codes() == [0, _UNKNOWN_ID]


def test_nobody_passes_for_a_replica(secured: SecuredDrumlin) -> None:
    """Neither by the right to read, nor in a session that was opened as a consumer."""
    with secured.login("alice") as alice, granted(secured, _READ):
        answer = fetch(alice, session_epoch=0)
        assert told(answer) == _all(0, True)
        assert told(fetch(alice, replica_id=1)) == _all(_TAF, False)
        session = answer.session_id
        answer = fetch(alice, session_id=session, session_epoch=1, replica_id=1)
        assert told(answer) == _all(_TAF, False)


def test_a_replica_of_list_offsets_is_a_consumer(secured: SecuredDrumlin) -> None:
    """Who may not pass for a replica sees what a consumer sees: up to the open transaction."""
    create_topic(secured, "a-open")
    with secured.connect() as root, secured.login("alice") as alice:
        producer = RawProducer(root, "of-root")
        producer.init()
        producer.add("a-open", 0)
        assert producer.send("a-open", 0)["error_code"] == "none"
        part = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
        asked = {"replica_id": 1, "isolation_level": 1}
        asked["topics"] = [{"name": "a-open", "partitions": [part]}]  # type: ignore[assignment]

        def offset(client: RawClient) -> int:
            (topic,) = client.ask("list_offsets", 7, **asked).topics
            assert topic.partitions[0].error_code == 0
            found: int = topic.partitions[0].offset
            return found

        assert offset(root) == 1
        with granted(secured, (Kind.TOPIC, Operation.DESCRIBE)):
            assert offset(alice) == 0
            with granted(
                secured,
                (Kind.TOPIC, Operation.DESCRIBE),
                (Kind.CLUSTER, Operation.CLUSTER_ACTION),
            ):
                assert offset(alice) == 1
        producer.end(commit=False)
