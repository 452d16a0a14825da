"""What answers of coordinators hide from a client that may not see all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from drumlin.broker.rights.acls import Kind, Operation
from rig.brokers.secured_drumlin import SecuredDrumlin
from rig.data.raw import RawClient
from rig.waiting import wait_until
from rights.granted import create_topic, granted
from rights.refusals import refusals

_SEEN, _UNSEEN = "a-viewed", "b-unseen"
_TAF, _GAF = 29, 30
_SEE_GROUP = Kind.GROUP, Operation.DESCRIBE
_SEE_TOPIC = Kind.TOPIC, Operation.DESCRIBE
_NOT_ASKED = -(2**31)
_REFUSED = "The group has described topic(s) that the client is not authorized to describe."


class Clients(NamedTuple):
    root: RawClient
    alice: RawClient


@pytest.fixture(scope="module")
def clients(secured: SecuredDrumlin) -> Iterator[Clients]:
    """Two groups with offsets in two topics, and two open transactions in both topics."""
    for name in (_SEEN, _UNSEEN):
        create_topic(secured, name)
    with secured.login("root") as root, secured.login("alice") as alice:
        for kind, key in enumerate(("a-x", "a-x")):
            root.ask("find_coordinator", 4, coordinator_keys=[key], key_type=kind)
        wait_until(lambda: not refusals(_commit(root, "a-offsets")), "the coordinator")
        wait_until(lambda: not refusals(_commit(root, "b-offsets")), "the coordinator")
        for transactional_id in ("a-open", "b-open"):
            _begin(root, transactional_id)
        yield Clients(root, alice)


def _commit(client: RawClient, group: str) -> Any:
    partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    topics = [{"name": name, "partitions": [partition]} for name in (_SEEN, _UNSEEN)]
    asked = {"group_id": group, "generation_id_or_member_epoch": -1, "topics": topics}
    return client.ask("offset_commit", 9, **asked)


def _begin(client: RawClient, transactional_id: str) -> None:
    asked = {
        "transactional_id": transactional_id,
        "transaction_timeout": 60_000,
        "producer_id": -1,
        "producer_epoch": -1,
    }

    def producer() -> Any:
        answer = client.ask("init_producer_id", 4, **asked)
        return answer if not refusals(answer) else None

    found = wait_until(producer, "the coordinator")
    added = {
        "v3_and_below_transactional_id": transactional_id,
        "v3_and_below_producer_id": found.producer_id,
        "v3_and_below_producer_epoch": found.producer_epoch,
        "v3_and_below_topics": [{"name": name, "partitions": [0]} for name in (_SEEN, _UNSEEN)],
    }
    assert not refusals(client.ask("add_partitions_to_txn", 3, **added))


def test_a_denied_join_tells_nothing(clients: Clients) -> None:
    asked = {"group_id": "a-g", "member_id": "known", "protocol_type": "consumer"}
    answer = clients.alice.ask("join_group", 9, **asked)
    told = answer.member_id, answer.leader, answer.generation_id, answer.protocol_name
    assert told == ("", "", -1, None)
    assert clients.alice.ask("end_txn", 5, transactional_id="a-open").producer_id == -1
    found = clients.alice.ask("find_coordinator", 4, coordinator_keys=["a-g"]).coordinators[0]
    assert (found.node_id, found.host, found.port) == (-1, "", -1)


def test_the_message_of_a_denial_is_that_of_apache_kafka(clients: Clients) -> None:
    alice = clients.alice
    assert (
        alice.ask("find_coordinator", 3, key="a-g").error_message == "Group authorization failed."
    )
    for kind, message in ((0, ""), (1, ""), (2, "Cluster authorization failed.")):
        answer = alice.ask("find_coordinator", 6, coordinator_keys=["a-g"], key_type=kind)
        assert answer.coordinators[0].error_message == message
    for group_kind, more in (("consumer", {"topic_partitions": None}), ("share", {})):
        asked = {"group_id": "a-g", "member_id": "one", **more}
        assert alice.ask(f"{group_kind}_group_heartbeat", 1, **asked).error_message is None
        described = alice.ask(f"{group_kind}_group_describe", 1, group_ids=["a-g"]).groups[0]
        assert (described.error_code, described.error_message) == (_GAF, None)
    groups = [{"group_id": "a-g", "topics": None}]
    described = alice.ask("describe_share_group_offsets", 1, groups=groups).groups[0]
    assert (described.error_code, described.error_message) == (_GAF, None)


def test_each_partition_that_joins_no_transaction_is_told_why(
    secured: SecuredDrumlin, clients: Clients
) -> None:
    topics = [{"name": name, "partitions": [0]} for name in (_UNSEEN, "a-missing", _SEEN)]
    asked = {"v3_and_below_transactional_id": "a-open", "v3_and_below_topics": topics}
    with granted(secured, (Kind.TRANSACTIONAL_ID, Operation.WRITE), (Kind.TOPIC, Operation.WRITE)):
        answer = clients.alice.ask("add_partitions_to_txn", 3, **asked)
    told = [
        (each.name, part.partition_error_code)
        for each in answer.results_by_topic_v3_and_below
        for part in each.results_by_partition
    ]
    assert told == [(_UNSEEN, _TAF), ("a-missing", 3), (_SEEN, 55)]


def test_denied_markers_are_told_of_every_producer(clients: Clients) -> None:
    marker: dict[str, Any] = {"producer_id": 1, "topics": [], "coordinator_epoch": 0}
    known = marker | {
        "producer_id": 2,
        "topics": [{"name": _SEEN, "partition_indexes": [0]}],
    }
    answer = clients.alice.ask("write_txn_markers", 1, markers=[marker, known])
    assert [(each.producer_id, len(each.topics)) for each in answer.markers] == [(1, 0), (2, 1)]


def test_offsets_in_all_topics_are_those_in_seen_ones(
    secured: SecuredDrumlin, clients: Clients
) -> None:
    def names() -> set[str]:
        single = clients.alice.ask("offset_fetch", 7, group_id="a-offsets", topics=None)
        asked = [{"group_id": "a-offsets", "topics": None}]
        (several,) = clients.alice.ask("offset_fetch", 9, groups=asked).groups
        assert not refusals(single) | refusals(several)
        assert [each.name for each in single.topics] == [each.name for each in several.topics]
        return {each.name for each in single.topics}

    with granted(secured, _SEE_GROUP):
        assert names() == set()
    with granted(secured, _SEE_GROUP, _SEE_TOPIC):
        assert names() == {_SEEN}


def test_unseen_topics_are_answered_last(secured: SecuredDrumlin, clients: Clients) -> None:
    topics = [{"name": name, "partition_indexes": [0]} for name in (_UNSEEN, _SEEN)]
    asked = [{"group_id": "a-offsets", "topics": topics}]
    with granted(secured, _SEE_GROUP, _SEE_TOPIC):
        (group,) = clients.alice.ask("offset_fetch", 9, groups=asked).groups
    told = [
        (each.name, part.error_code, part.committed_offset)
        for each in group.topics
        for part in each.partitions
    ]
    assert told == [(_SEEN, 0, 1), (_UNSEEN, _TAF, -1)]


def test_one_topic_that_may_not_be_read_is_refused_alone(
    secured: SecuredDrumlin, clients: Clients
) -> None:
    with granted(secured, (Kind.GROUP, Operation.READ), (Kind.TOPIC, Operation.READ)):
        answer = _commit(clients.alice, "a-offsets")
    told = {each.name: each.partitions[0].error_code for each in answer.topics}
    assert told == {_SEEN: 0, _UNSEEN: _TAF}


def test_groups_are_listed_by_the_right_to_see_each_or_all(
    secured: SecuredDrumlin, clients: Clients
) -> None:
    def listed() -> set[str]:
        answer = clients.alice.ask("list_groups", 4)
        assert answer.error_code == 0
        return {each.group_id for each in answer.groups} & {"a-offsets", "b-offsets"}

    assert listed() == set()
    with granted(secured, _SEE_GROUP):
        assert listed() == {"a-offsets"}
    with granted(secured, (Kind.CLUSTER, Operation.DESCRIBE)):
        assert listed() == {"a-offsets", "b-offsets"}


def test_operations_on_a_group_are_those_of_the_client(
    secured: SecuredDrumlin, clients: Clients
) -> None:
    def operations(group: str) -> int:
        asked = {"groups": [group], "include_authorized_operations": True}
        told: int = clients.alice.ask("describe_groups", 5, **asked).groups[0].authorized_operations
        return told

    assert operations("a-offsets") == _NOT_ASKED
    with granted(secured, (Kind.GROUP, Operation.READ)):
        expected = 1 << Operation.READ | 1 << Operation.DESCRIBE
        assert operations("a-offsets") == operations("a-dead") == expected


def test_groups_that_may_not_be_deleted_are_answered_last(
    secured: SecuredDrumlin, clients: Clients
) -> None:
    with granted(secured, (Kind.GROUP, Operation.DELETE)):
        answer = clients.alice.ask("delete_groups", 2, groups_names=["b-offsets", "a-none"])
    told = [(each.group_id, each.error_code) for each in answer.results]
    assert told == [("a-none", 69), ("b-offsets", _GAF)]
    assert not refusals(clients.root.ask("describe_groups", 6, groups=["b-offsets"]))


def test_transactions_are_seen_with_the_topics_that_are(
    secured: SecuredDrumlin, clients: Clients
) -> None:
    def topics() -> list[str]:
        answer = clients.alice.ask("describe_transactions", 0, transactional_ids=["a-open"])
        assert not refusals(answer)
        return [each.topic for each in answer.transaction_states[0].topics]

    def listed(**fields: Any) -> set[str]:
        answer = clients.alice.ask("list_transactions", 2, duration_filter=-1, **fields)
        return {each.transactional_id for each in answer.transaction_states}

    right = Kind.TRANSACTIONAL_ID, Operation.DESCRIBE
    assert listed() == set()
    with granted(secured, right):
        assert "a-open" in listed()
        assert "b-open" not in listed() | listed(transactional_id_pattern=".*open")
        assert topics() == []
    with granted(secured, right, _SEE_TOPIC):
        assert topics() == [_SEEN]


@pytest.mark.parametrize("kind", ["consumer", "share"])
def test_a_group_is_described_to_whom_sees_all_its_topics(
    secured: SecuredDrumlin, clients: Clients, kind: str
) -> None:
    root, group = clients.root, f"a-{kind}"
    asked: dict[str, Any] = {
        "group_id": group,
        "member_id": "one",
        "subscribed_topic_names": [_SEEN],
    }
    if kind == "consumer":
        asked |= {"rebalance_timeout": 60_000, "topic_partitions": []}

    def has_topic() -> bool:
        answer = root.ask(f"{kind}_group_heartbeat", 1, **asked)
        return answer.assignment is not None and bool(answer.assignment.topic_partitions)

    wait_until(has_topic, "an assignment")

    def described() -> Any:
        wanted = {"group_ids": [group], "include_authorized_operations": True}
        return clients.alice.ask(f"{kind}_group_describe", 1, **wanted).groups[0]

    with granted(secured, _SEE_GROUP):
        told = described()
        assert (told.error_code, told.error_message, told.members) == (_TAF, _REFUSED, ())
        assert told.authorized_operations == _NOT_ASKED
    with granted(secured, _SEE_GROUP, _SEE_TOPIC):
        told = described()
        assert (told.error_code, len(told.members)) == (0, 1)
        assert told.authorized_operations == 1 << Operation.DESCRIBE
    root.ask(f"{kind}_group_heartbeat", 1, **asked | {"member_epoch": -1})


def test_share_offsets_in_all_topics_are_those_in_seen_ones(
    secured: SecuredDrumlin, clients: Clients
) -> None:
    partitions = [{"partition_index": 0, "start_offset": 0}]
    topics = [{"topic_name": name, "partitions": partitions} for name in (_SEEN, _UNSEEN)]
    asked = {"group_id": "a-started", "topics": topics}
    assert not refusals(clients.root.ask("alter_share_group_offsets", 0, **asked))

    def told(wanted: Any) -> list[Any]:
        groups = [{"group_id": "a-started", "topics": wanted}]
        (group,) = clients.alice.ask("describe_share_group_offsets", 1, groups=groups).groups
        return [
            (each.topic_name, each.topic_id is None, part.error_code, part.start_offset, part.lag)
            for each in group.topics
            for part in each.partitions
        ]

    named = [{"topic_name": _UNSEEN, "partitions": [0]}]
    with granted(secured, _SEE_GROUP, _SEE_TOPIC):
        assert told(None) == [(_SEEN, False, 0, 0, 0)]
        assert told(named) == [(_UNSEEN, True, _TAF, -1, -1)]
    with granted(secured, (Kind.GROUP, Operation.READ), (Kind.TOPIC, Operation.READ)):
        answer = clients.alice.ask("alter_share_group_offsets", 0, **asked)
    codes = {each.topic_name: each.partitions[0].error_code for each in answer.responses}
    assert codes == {_SEEN: 0, _UNSEEN: _TAF}
    with granted(secured, (Kind.GROUP, Operation.DELETE), (Kind.TOPIC, Operation.READ)):
        names = [{"topic_name": name} for name in (_SEEN, _UNSEEN)]
        asked = {"group_id": "a-started", "topics": names}
        answer = clients.alice.ask("delete_share_group_offsets", 0, **asked)
    assert {each.topic_name: each.error_code for each in answer.responses} == codes
