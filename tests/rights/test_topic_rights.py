"""What a user is told of topics: whether they exist, their names, ids, operations and settings."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from drumlin.broker.rights.acls import Kind, Operation, Permission
from rig.brokers.secured_drumlin import SecuredDrumlin
from rig.data.raw import RawClient
from rights.granted import create_topic, granted

_UNKNOWN, _TAF, _EXISTS, _INVALID, _UNKNOWN_ID = 3, 29, 36, 42, 100
_NOT_ASKED = -(2**31)
_ALL_OF_TOPIC, _ALL_OF_CLUSTER = 3576, 8096
_DESCRIBE = (Kind.TOPIC, Operation.DESCRIBE)
_WRITE = (Kind.TOPIC, Operation.WRITE)
_DELETE = (Kind.TOPIC, Operation.DELETE)


@pytest.fixture(autouse=True)
def topics(secured: SecuredDrumlin) -> None:
    create_topic(secured, "a-seen", partitions=2)
    create_topic(secured, "a-seen-too")
    create_topic(secured, "hidden")


def _metadata(client: RawClient, version: int, names: Any, **fields: Any) -> Any:
    topics = None if names is None else [{"name": name} for name in names]
    plain = {"topics": topics, "allow_auto_topic_creation": False}
    return client.ask("metadata", version, **plain | fields)


def _id(secured: SecuredDrumlin, name: str) -> UUID:
    with secured.connect() as root:
        (topic,) = _metadata(root, 12, [name]).topics
    found: UUID = topic.topic_id
    return found


# -- Metadata ----------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(14))
def test_all_topics_are_those_that_may_be_seen(secured: SecuredDrumlin, version: int) -> None:
    everything: list[str] | None = None if version else []
    with secured.login("alice") as alice:
        answer = _metadata(alice, version, everything)
        assert answer.topics == ()
        assert answer.brokers  # they are told to everybody
        with granted(secured, _DESCRIBE):
            names = {each.name for each in _metadata(alice, version, everything).topics}
            assert {"a-seen", "a-seen-too"} <= names
            assert all(name.startswith("a-") for name in names)


@pytest.mark.parametrize("version", range(8, 14))
def test_operations_are_those_of_the_user(secured: SecuredDrumlin, version: int) -> None:
    """In the kept encoding of the topics they are those of nobody."""
    names = ["a-seen", "a-missing", "hidden"]
    asked = {"include_topic_authorized_operations": True}

    def operations(client: RawClient, **fields: Any) -> dict[str, int]:
        answer = _metadata(client, version, names, **fields)
        return {each.name: each.topic_authorized_operations for each in answer.topics}

    with secured.connect() as root, secured.login("alice") as alice:
        for _ in range(2):
            assert operations(root, **asked) == dict.fromkeys(names, _ALL_OF_TOPIC)
            assert operations(root) == dict.fromkeys(names, _NOT_ASKED)
            with granted(secured, _WRITE):
                told = operations(alice, **asked)
                assert told == {"a-seen": 272, "a-missing": 272, "hidden": _NOT_ASKED}
                assert operations(alice) == dict.fromkeys(names, _NOT_ASKED)
            assert operations(alice, **asked) == dict.fromkeys(names, _NOT_ASKED)


@pytest.mark.parametrize("version", [12, 13])
def test_metadata_by_id(secured: SecuredDrumlin, version: int) -> None:
    known, unknown = _id(secured, "a-seen"), UUID(int=5)
    topics = [{"name": None, "topic_id": each} for each in (known, unknown)]

    def told(client: RawClient) -> set[Any]:
        answer = client.ask("metadata", version, topics=topics, allow_auto_topic_creation=True)
        return {
            (each.error_code, each.name, each.topic_id, len(each.partitions))
            for each in answer.topics
        }

    with secured.login("alice") as alice:
        missing = (_UNKNOWN_ID, None, unknown, 0)
        assert told(alice) == {(_TAF, None, known, 0), missing}
        with granted(secured, _DESCRIBE):
            assert told(alice) == {(0, "a-seen", known, 2), missing}


def test_denied_reading_leaves_describing(secured: SecuredDrumlin) -> None:
    denied = granted(secured, (Kind.TOPIC, Operation.READ), permission=Permission.DENY)
    with secured.login("alice") as alice, granted(secured, _DESCRIBE), denied:
        assert _metadata(alice, 12, ["a-seen"]).topics[0].error_code == 0


def test_cluster_operations_are_those_of_the_user(secured: SecuredDrumlin) -> None:
    asked = {"include_cluster_authorized_operations": True}

    def told(client: RawClient) -> set[int]:
        metadata = [_metadata(client, version, [], **asked) for version in (8, 9, 10)]
        described = client.ask("describe_cluster", 2, endpoint_type=1, **asked)
        return {each.cluster_authorized_operations for each in (*metadata, described)}

    with secured.connect() as root, secured.login("alice") as alice:
        assert told(root) == {_ALL_OF_CLUSTER}
        assert told(alice) == {0}
        with granted(secured, (Kind.CLUSTER, Operation.CREATE)):
            assert told(alice) == {0}  # it may not be described
        with granted(secured, (Kind.CLUSTER, Operation.ALTER)):
            assert told(alice) == {1 << Operation.ALTER | 1 << Operation.DESCRIBE}
        assert alice.ask("describe_cluster", 2, endpoint_type=1).brokers


@pytest.mark.parametrize("kind", [Kind.TOPIC, Kind.CLUSTER])
def test_a_topic_is_created_by_its_name(secured: SecuredDrumlin, kind: Kind) -> None:
    """Two rights are needed: to see it, and to create it."""
    name = f"a-created-{kind}"
    create = (kind, Operation.CREATE)
    with secured.login("alice") as alice, secured.connect() as root:

        def asked(name: str = name) -> tuple[int, Any, bool]:
            answer = _metadata(alice, 12, [name], allow_auto_topic_creation=True)
            (topic,) = answer.topics
            return topic.error_code, topic.topic_id, topic.is_internal

        def exists() -> bool:
            return bool(_metadata(root, 12, [name]).topics[0].error_code == 0)

        for rights in ([], [create], [_DESCRIBE]):
            with granted(secured, *rights):
                assert asked() == (_TAF, None, False)
            assert not exists()
        with granted(secured, _DESCRIBE, create):
            assert asked() == (_UNKNOWN, None, False)  # as Apache Kafka answers a creation
        assert exists()


# -- DescribeTopicPartitions -------------------------------------------------------------


def _described(client: RawClient, names: list[str], limit: int = 100, **fields: Any) -> Any:
    topics = [{"name": name} for name in names]
    return client.ask(
        "describe_topic_partitions",
        0,
        topics=topics,
        response_partition_limit=limit,
        **{"cursor": None, **fields},
    )


def test_described_topics_are_those_that_may_be_seen(secured: SecuredDrumlin) -> None:
    with secured.login("alice") as alice:
        assert _described(alice, []).topics == ()
        with granted(secured, _WRITE):
            answer = _described(alice, [])
            names = [each.name for each in answer.topics]
            assert {"a-seen", "a-seen-too"} <= set(names)
            assert all(name.startswith("a-") for name in names)
            assert {each.topic_authorized_operations for each in answer.topics} == {272}
            # What may not be seen is no page, and begins none.
            answer = _described(alice, ["hidden", "a-seen", "a-seen-too"], limit=3)
            assert [each.name for each in answer.topics] == ["a-seen", "a-seen-too", "hidden"]
            assert answer.next_cursor is None
            answer = _described(alice, ["a-seen", "hidden"], limit=1)
            assert answer.next_cursor.topic_name == "a-seen"
            cursor = {"topic_name": "hidden", "partition_index": 0}
            answer = _described(alice, ["hidden"], cursor=cursor)
            assert [each.error_code for each in answer.topics] == [_TAF]
        (hidden,) = _described(alice, ["hidden"]).topics
        assert (hidden.topic_id, hidden.partitions) == (None, ())
        assert hidden.topic_authorized_operations == _NOT_ASKED


# -- CreateTopics ------------------------------------------------------------------------


def _create(client: RawClient, *names: str, timeout: int = 20_000) -> list[Any]:
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names]
    return list(client.ask("create_topics", 7, topics=topics, timeout=timeout).topics)


def test_who_creates_may_not_know_the_configuration(secured: SecuredDrumlin) -> None:
    create = (Kind.TOPIC, Operation.CREATE)
    with secured.login("alice") as alice:
        with granted(secured, create):
            (topic,) = _create(alice, "a-made")
            assert (topic.error_code, topic.topic_id is not None) == (0, True)
            assert topic.topic_config_error_code == _TAF
            assert (topic.num_partitions, topic.replication_factor, topic.configs) == (-1, -1, ())
        with granted(secured, create, (Kind.TOPIC, Operation.DESCRIBE_CONFIGS)):
            (topic,) = _create(alice, "a-made-too")
            assert (topic.error_code, topic.topic_config_error_code) == (0, 0)
            assert topic.num_partitions == 1
            assert topic.configs
            codes = {each.name: each.error_code for each in _create(alice, "a-seen", "hidden")}
            assert codes == {"a-seen": _EXISTS, "hidden": _TAF}


def test_rights_are_asked_before_the_time_is_over(secured: SecuredDrumlin) -> None:
    growth = {"name": "a-seen", "count": 9, "assignments": None}
    with secured.login("alice") as alice:
        assert [each.error_code for each in _create(alice, "a-made", timeout=0)] == [_TAF]
        answer = alice.ask("create_partitions", 3, topics=[growth], timeout=0)
        assert [each.error_code for each in answer.results] == [_TAF]


def test_a_change_without_value_is_refused_before_rights_are_asked(
    secured: SecuredDrumlin,
) -> None:
    config = {"name": "retention.ms", "value": None}
    resource = {"resource_type": 2, "resource_name": "a-seen", "configs": [config]}
    with secured.login("alice") as alice:
        for api, version in (("alter_configs", 2), ("incremental_alter_configs", 1)):
            answer = alice.ask(api, version, resources=[resource])
            assert [each.error_code for each in answer.responses] == [_INVALID]


def test_duplicates_are_refused_before_rights_are_asked(secured: SecuredDrumlin) -> None:
    with secured.login("alice") as alice:
        (topic,) = _create(alice, "a-twice", "a-twice")
        assert topic.error_code == _INVALID
        growth = {"name": "a-seen", "count": 9, "assignments": None}
        answer = alice.ask("create_partitions", 3, topics=[growth] * 2, timeout=1000)
        assert [each.error_code for each in answer.results] == [_INVALID]
        answer = alice.ask("delete_topics", 5, topic_names=["a-seen"] * 2, timeout=1000)
        assert [each.error_code for each in answer.responses] == [_INVALID]
        resource = {"resource_type": 2, "resource_name": "a-seen", "configs": []}
        answer = alice.ask("alter_configs", 2, resources=[resource] * 2)
        assert {each.error_code for each in answer.responses} == {_INVALID}


def test_a_sum_of_new_partitions_tells_nothing_of_hidden_topics(secured: SecuredDrumlin) -> None:
    """A request for too many is refused as a whole: those of others do not count."""
    topics = [
        {"name": name, "count": count, "assignments": None}
        for name, count in (("hidden", 9_999), ("a-seen", 3))
    ]
    with secured.login("alice") as alice, granted(secured, (Kind.TOPIC, Operation.ALTER)):
        fields = {"topics": topics, "timeout": 5000, "validate_only": True}
        answer = alice.ask("create_partitions", 3, **fields)
        assert {each.name: each.error_code for each in answer.results} == {
            "hidden": _TAF,
            "a-seen": 0,
        }


# -- DeleteTopics ------------------------------------------------------------------------


def _delete(client: RawClient, *targets: tuple[str | None, UUID | None]) -> set[Any]:
    topics = [{"name": name, "topic_id": topic_id} for name, topic_id in targets]
    answer = client.ask("delete_topics", 6, topics=topics, timeout=20_000)
    return {(each.error_code, each.name, each.topic_id) for each in answer.responses}


def test_who_may_not_delete_is_told_what_he_may_see(secured: SecuredDrumlin) -> None:
    seen, unknown = _id(secured, "a-seen"), UUID(int=5)
    by_name = [("a-seen", None), ("a-missing", None)]
    by_id = [(None, seen), (None, unknown)]
    missing = (_UNKNOWN_ID, None, unknown)
    with secured.login("alice") as alice:
        assert _delete(alice, *by_name) == {(_TAF, "a-seen", None), (_TAF, "a-missing", None)}
        assert _delete(alice, *by_id) == {(_TAF, None, seen), missing}
        with granted(secured, _WRITE):
            assert _delete(alice, *by_name) == {
                (_TAF, "a-seen", None),
                (_UNKNOWN, "a-missing", None),
            }
            assert _delete(alice, *by_id) == {(_TAF, "a-seen", seen), missing}
    assert _id(secured, "a-seen") == seen


@pytest.mark.parametrize("right", [_DELETE, (Kind.CLUSTER, Operation.ALL)])
def test_who_may_delete(secured: SecuredDrumlin, right: tuple[Kind, Operation]) -> None:
    for name in ("a-old", "a-older"):
        create_topic(secured, name)
    old, older = _id(secured, "a-old"), _id(secured, "a-older")
    with secured.login("alice") as alice, granted(secured, right):
        assert _delete(alice, ("a-old", None), (None, older), ("a-missing", None)) == {
            (0, "a-old", old),
            (0, "a-older", older),
            (_UNKNOWN, "a-missing", None),
        }


def test_who_may_delete_but_not_see(secured: SecuredDrumlin) -> None:
    denied = granted(secured, (Kind.TOPIC, Operation.DESCRIBE), permission=Permission.DENY)
    with secured.login("alice") as alice, granted(secured, _DELETE), denied:
        assert _delete(alice, ("a-seen", None)) == {(_TAF, "a-seen", None)}


def test_the_place_of_an_answer_tells_nothing(secured: SecuredDrumlin) -> None:
    names = [f"a-missing-{each}" for each in range(30)]
    with secured.login("alice") as alice:
        answer = alice.ask("delete_topics", 5, topic_names=names, timeout=1000)
    told = [each.name for each in answer.responses]
    assert sorted(told) == sorted(names)
    assert told != names


# -- others ------------------------------------------------------------------------------


def test_an_election_of_all_names_no_topic(secured: SecuredDrumlin) -> None:
    with secured.login("alice") as alice:
        for election in (0, 1):
            fields = {"topic_partitions": None, "timeout": 1000, "election_type": election}
            answer = alice.ask("elect_leaders", 2, **fields)
            assert (answer.error_code, answer.replica_election_results) == (31, ())


def test_a_name_that_cannot_be_is_told_before_the_right(secured: SecuredDrumlin) -> None:
    with secured.login("alice") as alice:
        topics = [{"name": "not/valid", "partition_indexes": [0]}]
        answer = alice.ask("describe_producers", 0, topics=topics)
        assert answer.topics[0].partitions[0].error_code == 17


def test_a_type_that_does_not_exist_is_told_to_everybody(secured: SecuredDrumlin) -> None:
    resource = {"resource_type": 99, "resource_name": "x", "configs": []}
    with secured.login("alice") as alice:
        fields = {"resources": [resource | {"configuration_keys": None}]}
        fields["resources"][0].pop("configs")
        answer = alice.ask("describe_configs", 4, **fields)
        assert [each.error_code for each in answer.results] == [_INVALID]
        for api, version in (("alter_configs", 2), ("incremental_alter_configs", 1)):
            answer = alice.ask(api, version, resources=[resource])
            assert [each.error_code for each in answer.responses] == [_INVALID]
