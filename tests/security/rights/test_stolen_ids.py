"""Ids that are another's: what alice can do with those that she has found out, as in Apache Kafka.

An id is no secret there: who has the right to use a name may take over whatever has it. Without
that right an id opens nothing. (Sessions of fetches belong to a principal: see `tests/rights`.)
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from broker.raw_transactions import RawProducer
from crash.requests import await_coordinator
from rig.data.batches import batch
from rig.data.raw import RawClient
from rig.data.secured_listeners import PASSWORD, Secured
from rig.servers.rights import GROUP, READ, TOPIC, TRANSACTIONAL_ID, WRITE, Right, granted
from rig.waiting import wait_until

pytestmark = pytest.mark.kafka

_TOPIC = "open"  # everybody may read and write it
_NONE, _UNKNOWN_MEMBER, _GROUP, _TRANSACTION, _MAPPING = 0, 25, 30, 53, 49
_FENCED_INSTANCE, _SEQUENCE, _EPOCH = 82, 45, 47


class Two(NamedTuple):
    """Whose the ids are, and alice."""

    secured: Secured
    owner: RawClient
    thief: RawClient


@pytest.fixture
def two(secured: Secured) -> Iterator[Two]:
    port = int(secured.addresses["login"].rpartition(":")[2])
    with RawClient(secured.port) as owner, RawClient(port) as thief:
        thief.ask("sasl_handshake", 1, mechanism="PLAIN")
        answer = thief.ask("sasl_authenticate", 2, auth_bytes=f"\0alice\0{PASSWORD}".encode())
        assert answer.error_code == 0
        yield Two(secured, owner, thief)


def _name() -> str:
    return f"of-owner-{uuid.uuid4().hex[:8]}"


# -- producers ---------------------------------------------------------------------------------


@pytest.fixture
def producer(two: Two) -> RawProducer:
    """The owner's, in a transaction with a record."""
    made = RawProducer(two.owner, _name())
    made.init()
    made.add(_TOPIC, 0)
    assert made.send(_TOPIC, 0)["error_code"] == "none"
    return made


def _codes(thief: RawClient, producer: RawProducer, transactional_id: str) -> dict[str, int]:
    """What alice is told who uses the producer's ids under a transactional id."""
    who = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    older = {f"v3_and_below_{key}": value for key, value in who.items()}
    topics = [{"name": _TOPIC, "partitions": [0]}]
    added = thief.ask(
        "add_partitions_to_txn",
        3,
        **older,
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_topics=topics,
    )
    (of_topic,) = added.results_by_topic_v3_and_below
    named = {"transactional_id": transactional_id, **who}
    request = producer.request(_TOPIC, 1, transactional_id=transactional_id)
    produced = thief.ask("produce", 11, **request)
    group = {"group_id": "readers", "generation_id": -1, "member_id": ""}
    offsets = [{"name": _TOPIC, "partitions": [{"partition_index": 0, "committed_offset": 0}]}]
    return {
        "add partitions": of_topic.results_by_partition[0].partition_error_code,
        "add offsets": thief.ask("add_offsets_to_txn", 3, **named, group_id="readers").error_code,
        "commit offsets": thief.ask("txn_offset_commit", 3, **named, **group, topics=offsets)
        .topics[0]
        .partitions[0]
        .error_code,
        "produce": produced.responses[0].partition_responses[0].error_code,
        "end": thief.ask("end_txn", 3, **named, committed=True).error_code,
    }


def test_a_producer_id_without_its_transactional_id(two: Two, producer: RawProducer) -> None:
    """Neither under its own name, nor under one of alice's."""
    await_coordinator(two.owner, "readers")
    codes = _codes(two.thief, producer, producer.transactional_id)
    assert codes == dict.fromkeys(codes, _TRANSACTION)
    own = RawProducer(two.thief, _name())
    with granted(two.secured, Right(TRANSACTIONAL_ID, own.transactional_id, WRITE)):
        own.init()
        codes = _codes(two.thief, producer, own.transactional_id)
    assert codes == {
        "add partitions": _MAPPING,
        "add offsets": _MAPPING,
        "commit offsets": _MAPPING,
        # She may write to the topic, and the partition is in the transaction already.
        "produce": _NONE,
        "end": _MAPPING,
    }
    producer.end()


def test_a_transactional_id(two: Two, producer: RawProducer) -> None:
    """Who may not write under it cannot take it over; who may does."""
    asked = {"transactional_id": producer.transactional_id, "transaction_timeout": 60_000}

    def code() -> int:
        answer = two.thief.ask("init_producer_id", 4, producer_id=-1, producer_epoch=-1, **asked)
        return int(answer.error_code)

    assert code() == _TRANSACTION
    assert producer.send(_TOPIC, 1)["error_code"] == "none"
    with granted(two.secured, Right(TRANSACTIONAL_ID, producer.transactional_id, WRITE)):
        wait_until(lambda: code() == _NONE, "the takeover")
    answer = producer.ask("end_txn", 3, **producer._who, committed=True)
    assert answer["error_code"] == "producer_fenced"


def test_the_id_of_an_idempotent_producer(two: Two) -> None:
    """Who may write to a topic may write with any producer's id, and so hold that one up there."""
    asked = {"transactional_id": None, "transaction_timeout": 60_000}
    made = two.owner.ask("init_producer_id", 4, producer_id=-1, producer_epoch=-1, **asked)

    def code(client: RawClient, epoch: int, sequence: int) -> int:
        who = {"producer_id": made.producer_id, "producer_epoch": epoch}
        records = batch(b"v", **who, base_sequence=sequence)
        topics = [{"name": _TOPIC, "partition_data": [{"index": 0, "records": records}]}]
        answer = client.ask("produce", 9, acks=1, timeout=10_000, topic_data=topics)
        return int(answer.responses[0].partition_responses[0].error_code)

    assert code(two.owner, 0, 0) == _NONE
    assert code(two.thief, 0, 2) == _SEQUENCE
    assert code(two.thief, 1, 0) == _NONE
    assert code(two.owner, 0, 1) == _EPOCH


# -- members of groups -------------------------------------------------------------------------


def _join(group: str, member_id: str = "", instance_id: str | None = None) -> dict[str, Any]:
    return {
        "group_id": group,
        "session_timeout": 30_000,
        "rebalance_timeout": 30_000,
        "member_id": member_id,
        "group_instance_id": instance_id,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"x"}],
    }


def _member(client: RawClient, group: str, instance_id: str | None = None) -> dict[str, Any]:
    """The only member of a stable group."""
    await_coordinator(client, group)
    answer = client.ask("join_group", 5, **_join(group, instance_id=instance_id))
    if answer.error_code == 79:  # MEMBER_ID_REQUIRED
        answer = client.ask("join_group", 5, **_join(group, answer.member_id))
    assert answer.error_code == _NONE, answer
    who = {"group_id": group, "generation_id": answer.generation_id, "member_id": answer.member_id}
    who["group_instance_id"] = instance_id
    given = [{"member_id": answer.member_id, "assignment": b"x"}]
    assert client.ask("sync_group", 3, **who, assignments=given).error_code == _NONE
    return who


def _commit(who: dict[str, Any]) -> dict[str, Any]:
    partitions = [{"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1}]
    named = {key: value for key, value in who.items() if key != "generation_id"}
    return {
        **named,
        "generation_id_or_member_epoch": who["generation_id"],
        "topics": [{"name": _TOPIC, "partitions": partitions}],
    }


def _as_member(client: RawClient, who: dict[str, Any]) -> dict[str, int]:
    beaten = client.ask("heartbeat", 3, **who)
    committed = client.ask("offset_commit", 7, **_commit(who))
    left = client.ask("leave_group", 2, group_id=who["group_id"], member_id=who["member_id"])
    return {
        "heartbeat": beaten.error_code,
        "commit": committed.topics[0].partitions[0].error_code,
        "sync": client.ask("sync_group", 3, **who, assignments=[]).error_code,
        "leave": left.error_code,
    }


def test_a_member_id(two: Two) -> None:
    who = _member(two.owner, _name())
    codes = _as_member(two.thief, who)
    assert codes == dict.fromkeys(codes, _GROUP)
    assert two.owner.ask("heartbeat", 3, **who).error_code == _NONE
    with granted(two.secured, Right(GROUP, who["group_id"], READ)):
        codes = _as_member(two.thief, who)
    assert codes == {"heartbeat": _NONE, "commit": _NONE, "sync": _UNKNOWN_MEMBER, "leave": _NONE}
    assert two.owner.ask("heartbeat", 3, **who).error_code == _UNKNOWN_MEMBER


def test_an_instance_id(two: Two) -> None:
    who = _member(two.owner, _name(), "instance")
    asked = _join(who["group_id"], instance_id="instance")
    assert two.thief.ask("join_group", 5, **asked).error_code == _GROUP
    assert two.owner.ask("heartbeat", 3, **who).error_code == _NONE
    with granted(two.secured, Right(GROUP, who["group_id"], READ)):
        assert two.thief.ask("join_group", 5, **asked).error_code == _NONE
    assert two.owner.ask("heartbeat", 3, **who).error_code == _FENCED_INSTANCE


def test_a_member_of_the_new_protocol(two: Two) -> None:
    asked = {"group_id": _name(), "member_id": str(uuid.uuid4()), "rebalance_timeout": 30_000}
    await_coordinator(two.owner, asked["group_id"])
    begun = {**asked, "member_epoch": 0, "subscribed_topic_names": [_TOPIC], "topic_partitions": []}
    epoch = two.owner.ask("consumer_group_heartbeat", 0, **begun).member_epoch
    assert epoch > 0
    again = {**asked, "member_epoch": epoch, "subscribed_topic_names": None}
    leaving = {**again, "member_epoch": -1}
    for each in (again, leaving):
        assert two.thief.ask("consumer_group_heartbeat", 0, **each).error_code == _GROUP
    with granted(two.secured, Right(GROUP, asked["group_id"], READ), Right(TOPIC, _TOPIC, READ)):
        assert two.thief.ask("consumer_group_heartbeat", 0, **leaving).error_code == _NONE
    assert two.owner.ask("consumer_group_heartbeat", 0, **again).error_code == _UNKNOWN_MEMBER
