"""Rights that change while a request waits, and share sessions, which belong to a principal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from drumlin.broker.rights.acls import Kind, Operation
from rig.brokers.secured_drumlin import SecuredDrumlin
from rig.data.batches import batch
from rig.data.raw import NoAnswer, RawClient
from rig.waiting import wait_until
from rights.granted import create_topic, granted, revoke
from rights.refusals import refusals

_TOPIC, _SECRET = "a-waits", "b-waits"
_TAF, _GAF, _NO_SESSION = 29, 30, 122
_READ_GROUP = Kind.GROUP, Operation.READ
_READ_TOPIC = Kind.TOPIC, Operation.READ


class Clients(NamedTuple):
    root: RawClient
    alice: RawClient
    topic_id: UUID


@pytest.fixture(scope="module")
def clients(secured: SecuredDrumlin) -> Iterator[Clients]:
    for name in (_TOPIC, _SECRET):
        create_topic(secured, name)
    with secured.login("root") as root, secured.login("alice") as alice:
        topic = root.ask("metadata", 12, topics=[{"name": _TOPIC}]).topics[0]
        root.ask("find_coordinator", 4, coordinator_keys=["a-x"])
        asked = {"group_id": "a-x", "member_id": "x"}
        wait_until(lambda: refusals(root.ask("heartbeat", 4, **asked)) == {25}, "the coordinator")
        yield Clients(root, alice, topic.topic_id)


def _waits(client: RawClient) -> None:
    with pytest.raises(NoAnswer):
        client.receive_frame(timeout_s=0.2)
    client.socket.settimeout(20)


# -- the classic protocol ----------------------------------------------------------------------


def _join(member_id: str = "", metadata: bytes = b"") -> dict[str, Any]:
    return {
        "group_id": "a-waiting",
        "session_timeout": 30_000,
        "rebalance_timeout": 30_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": metadata}],
    }


def _sync(generation_id: int, member_id: str, *assigned: str) -> dict[str, Any]:
    return {
        "group_id": "a-waiting",
        "generation_id": generation_id,
        "member_id": member_id,
        "assignments": [{"member_id": each, "assignment": b"x"} for each in assigned],
    }


def test_a_member_without_rights_is_told_of_no_generation_and_no_assignment(
    secured: SecuredDrumlin, clients: Clients
) -> None:
    leader, alice = clients.root, clients.alice
    with granted(secured, _READ_GROUP), secured.connect() as administrator:
        leader.send("join_group", 3, **_join())
        wait_until(lambda: _members(administrator), "the leader")
        alice.send("join_group", 3, **_join())
        led, joined = (each.receive("join_group", 3) for each in (leader, alice))
        assert (led.leader, joined.error_code) == (led.member_id, 0)
        both = led.member_id, joined.member_id
        with secured.login("bob") as bob:  # who may not do this, and changes nothing
            assigned = _sync(led.generation_id, led.member_id, *both)
            assert bob.ask("sync_group", 3, **assigned).error_code == _GAF
            assert bob.ask("join_group", 3, **_join()).error_code == _GAF
        assert len(_members(administrator)) == 2
        assert _group(administrator).group_state == "CompletingRebalance"
        leader.ask("sync_group", 3, **_sync(led.generation_id, led.member_id, *both))
        own = _sync(joined.generation_id, joined.member_id)
        assert alice.ask("sync_group", 3, **own).assignment == b"x"

        alice.send("join_group", 3, **_join(joined.member_id, b"other"))
        _waits(alice)
        revoke(administrator)
        led = leader.ask("join_group", 3, **_join(led.member_id))
        answer = alice.receive("join_group", 3)
        told = answer.error_code, answer.member_id, answer.leader, answer.generation_id
        assert told == (_GAF, "", "", -1)
    with granted(secured, _READ_GROUP), secured.connect() as administrator:
        alice.send("sync_group", 3, **_sync(led.generation_id, joined.member_id))
        _waits(alice)
        revoke(administrator)
        leader.ask("sync_group", 3, **_sync(led.generation_id, led.member_id, *both))
        answer = alice.receive("sync_group", 3)
        assert (answer.error_code, answer.assignment) == (_GAF, b"")


def _group(client: RawClient) -> Any:
    return client.ask("describe_groups", 5, groups=["a-waiting"]).groups[0]


def _members(client: RawClient) -> Any:
    return _group(client).members


# -- the consumer protocol ---------------------------------------------------------------------


def test_a_regular_expression_matches_what_its_member_may_see(
    secured: SecuredDrumlin, clients: Clients
) -> None:
    with granted(secured, _READ_GROUP, (Kind.TOPIC, Operation.DESCRIBE)):
        found = wait_until(lambda: _matched(clients.alice, "a-regex"), "an assignment")
    assert found == [clients.topic_id]


@pytest.mark.deep
def test_a_regular_expression_is_resolved_again_when_rights_change(
    secured: SecuredDrumlin, clients: Clients
) -> None:
    """Ten seconds later, as when there are new topics."""
    with granted(secured, _READ_GROUP, (Kind.TOPIC, Operation.DESCRIBE)):
        wait_until(lambda: _matched(clients.alice, "a-regex-2"), "an assignment")
    with granted(secured, _READ_GROUP):
        wait_until(lambda: not _matched(clients.alice, "a-regex-2"), "the topic to be taken")


def _matched(client: RawClient, group: str) -> list[UUID]:
    """The assignment of the only member of a group that reads what ends like the test's topics."""
    asked = {
        "group_id": group,
        "member_id": "one",
        "rebalance_timeout": 60_000,
        "subscribed_topic_regex": ".*-waits",
        "topic_partitions": [],
    }
    answer = client.ask("consumer_group_heartbeat", 1, **asked)
    assert not refusals(answer)
    return [each.topic_id for each in answer.assignment.topic_partitions]


# -- share groups ------------------------------------------------------------------------------


class _Member:
    """A member of the share group "a-share", which asks by several clients."""

    def __init__(self, name: str, topic_id: UUID) -> None:
        self._fields = {"group_id": "a-share", "member_id": name}
        self._topic_id = topic_id

    def request(self, epoch: int, *acknowledged: int, **fields: Any) -> dict[str, Any]:
        batches = [
            {"first_offset": each, "last_offset": each, "acknowledge_types": [1]}
            for each in acknowledged
        ]
        partitions = [{"partition_index": 0, "acknowledgement_batches": batches}]
        topics = [{"topic_id": self._topic_id, "partitions": partitions}]
        limits = {"max_records": 1, "batch_size": 1, "min_bytes": 1, "max_bytes": 1 << 20}
        return {**self._fields, "share_session_epoch": epoch, "topics": topics, **limits, **fields}

    def acknowledging(self, epoch: int, *acknowledged: int) -> dict[str, Any]:
        asked = self.request(epoch, *acknowledged)
        return {name: asked[name] for name in (*self._fields, "share_session_epoch", "topics")}


@pytest.fixture
def member(clients: Clients, request: pytest.FixtureRequest) -> Iterator[_Member]:
    """One whose group has all records of the topic before it."""
    wanted = [{"topic_name": _TOPIC, "partitions": [{"partition_index": 0, "start_offset": 0}]}]
    asked = {"group_id": "a-share", "topics": wanted}

    def is_altered() -> bool:
        return not refusals(clients.root.ask("alter_share_group_offsets", 0, **asked))

    wait_until(is_altered, "the start offset")
    yield _Member(request.node.name[:36], clients.topic_id)
    ending = _Member(request.node.name[:36], clients.topic_id).request(-1)
    with_no_topics = ending | {"topics": []}
    clients.alice.ask("share_fetch", 1, **with_no_topics)


def _produce(client: RawClient) -> None:
    partition = {"index": 0, "records": batch(b"one")}
    asked = {"acks": 1, "topic_data": [{"name": _TOPIC, "partition_data": [partition]}]}
    assert not refusals(client.ask("produce", 9, timeout=10_000, **asked))


def _told(answer: Any) -> list[tuple[int, int, int]]:
    """The errors of each partition, and the records acquired in it."""
    return [
        (int(each.error_code), each.acknowledge_error_code, len(each.acquired_records))
        for topic in answer.responses
        for each in topic.partitions
    ]


def test_a_share_session_is_continued_by_its_principal_alone(
    secured: SecuredDrumlin, clients: Clients, member: _Member
) -> None:
    root, alice = clients.root, clients.alice
    with granted(secured, _READ_GROUP, _READ_TOPIC):
        assert not refusals(alice.ask("share_fetch", 1, **member.request(0)))
        for epoch in (0, 1, -1):
            code = root.ask("share_fetch", 1, **member.request(epoch)).error_code
            assert code == _NO_SESSION
        for epoch in (1, -1):
            code = root.ask("share_acknowledge", 1, **member.acknowledging(epoch)).error_code
            assert code == _NO_SESSION
        assert not refusals(alice.ask("share_fetch", 1, **member.request(1)))


def test_all_partitions_of_a_share_session_are_asked_in_each_request(
    secured: SecuredDrumlin, clients: Clients, member: _Member
) -> None:
    """Also those that the request does not name. What was acquired stays locked."""
    alice = clients.alice
    _produce(clients.root)
    quick = {"max_wait": 5_000}
    with granted(secured, _READ_GROUP, _READ_TOPIC):
        assert _told(alice.ask("share_fetch", 1, **member.request(0, **quick))) == [(0, 0, 1)]
    with granted(secured, _READ_GROUP):
        answer = alice.ask("share_fetch", 1, **member.request(1, **quick) | {"topics": []})
        assert _told(answer) == [(_TAF, 0, 0)]
        assert _told(alice.ask("share_fetch", 1, **member.request(2, 0))) == [(_TAF, _TAF, 0)]
        answer = alice.ask("share_acknowledge", 1, **member.acknowledging(3, 0))
        assert refusals(answer) == {_TAF}
    with granted(secured, _READ_GROUP, _READ_TOPIC):
        assert not refusals(alice.ask("share_acknowledge", 1, **member.acknowledging(4, 0)))


@pytest.mark.parametrize("left", [(_READ_GROUP,), (_READ_TOPIC,)], ids=["group", "topic"])
def test_a_waiting_share_fetch_gets_nothing_without_rights(
    secured: SecuredDrumlin,
    clients: Clients,
    member: _Member,
    left: tuple[tuple[Kind, Operation], ...],
) -> None:
    alice = clients.alice
    with granted(secured, _READ_GROUP, _READ_TOPIC):
        before = alice.ask("share_fetch", 1, **member.request(0, max_records=1000))
        assert not refusals(before)
        alice.send("share_fetch", 1, **member.request(1, max_wait=60_000))
        _waits(alice)
    with granted(secured, *left):
        _produce(clients.root)
        assert _told(alice.receive("share_fetch", 1)) == [(_TAF, 0, 0)]
