"""Each single right, for each API of topics and of the cluster: the answer is that of a super user
with each that suffices, and with all others together that of a user without rights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from drumlin.broker.rights.acls import OPERATIONS, Kind, Operation
from rig.brokers.secured_drumlin import SecuredDrumlin
from rig.data.batches import batch
from rig.data.raw import RawClient
from rights.granted import create_topic, granted

KNOWN, MISSING = "a-known", "a-missing"
_TAF, _GAF, _CAF = 29, 30, 31
_DESCRIBE = frozenset(
    {
        *(Operation.DESCRIBE, Operation.READ, Operation.WRITE),
        *(Operation.DELETE, Operation.ALTER),
    }
)
_DESCRIBE_CONFIGS = frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS})
_TOPIC_TYPE, _BROKER_TYPE, _GROUP_TYPE, _LOGGER_TYPE, _METRICS_TYPE = 2, 4, 32, 8, 16
#: All that the rows are about.
_RIGHTS = [
    (kind, operation)
    for kind in (Kind.TOPIC, Kind.CLUSTER, Kind.GROUP)
    for operation in (*OPERATIONS[kind], Operation.ALL)
]
_Told = Callable[[Any], Any]


class Row(NamedTuple):
    """A request, what is to be looked at in its answer, and that without rights."""

    api: str
    version: int
    fields: Mapping[str, Any]
    told: _Told
    denied: Any
    topic: frozenset[Operation] = frozenset()
    cluster: frozenset[Operation] = frozenset()
    group: frozenset[Operation] = frozenset()

    def suffices(self, right: tuple[Kind, Operation]) -> bool:
        kind, operation = right
        rights = {Kind.TOPIC: self.topic, Kind.CLUSTER: self.cluster, Kind.GROUP: self.group}
        return bool(rights[kind]) and operation in {*rights[kind], Operation.ALL}


def _one(operation: Operation) -> frozenset[Operation]:
    return frozenset({operation})


def _code(answer: Any) -> Any:
    return answer.error_code


def _of_partitions(topics: str, partitions: str, *fields: str) -> _Told:
    def told(answer: Any) -> Any:
        return [
            tuple(getattr(part, field) for field in ("error_code", *fields))
            for topic in getattr(answer, topics)
            for part in getattr(topic, partitions)
        ]

    return told


def _of_each(items: str, *fields: str) -> _Told:
    def told(answer: Any) -> Any:
        names = ("error_code", *fields)
        return [tuple(getattr(item, name) for name in names) for item in getattr(answer, items)]

    return told


def _topics(name: str, partitions: str, **fields: Any) -> list[dict[str, Any]]:
    return [{name: topic, partitions: [fields]} for topic in (KNOWN, MISSING)]


def _resource(kind: int, name: str, **fields: Any) -> dict[str, Any]:
    return {"resource_type": kind, "resource_name": name, **fields}


def _configured(kind: int, name: str) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """The APIs that alter a resource's configuration."""
    config = {"name": "retention.ms", "value": "100000"}
    if kind != _LOGGER_TYPE:
        fields = {"resources": [_resource(kind, name, configs=[config])], "validate_only": True}
        yield "alter_configs", 2, fields
    fields = {"resources": [_resource(kind, name, configs=[config])], "validate_only": True}
    yield "incremental_alter_configs", 1, fields


def _config_rows() -> Iterator[Row]:
    resources = [
        (_TOPIC_TYPE, KNOWN, _TAF, "topic", "Topic authorization failed."),
        (_TOPIC_TYPE, MISSING, _TAF, "topic", "Topic authorization failed."),
        (_GROUP_TYPE, "a-group", _GAF, "group", "Group authorization failed."),
        (_BROKER_TYPE, "1", _CAF, "cluster", "Cluster authorization failed."),
        (_BROKER_TYPE, "", _CAF, "cluster", "Cluster authorization failed."),
        (_LOGGER_TYPE, "1", _CAF, "cluster", "Cluster authorization failed."),
        (_METRICS_TYPE, "m", _CAF, "cluster", "Cluster authorization failed."),
    ]
    for kind, name, code, on, message in resources:
        describing: Any = {on: _DESCRIBE_CONFIGS}
        altering: Any = {on: _one(Operation.ALTER_CONFIGS)}
        fields: Any = {"resources": [_resource(kind, name, configuration_keys=None)]}
        told = _of_each("results", "error_message", "configs")
        denied: Any = [(code, message, ())]
        yield Row("describe_configs", 4, fields, told, denied, **describing)
        told = _of_each("responses", "error_message")
        message = None if kind == _LOGGER_TYPE else message  # as in Apache Kafka
        for api, version, fields in _configured(kind, name):
            yield Row(api, version, fields, told, [(code, message)], **altering)


def _produced(acks: int = 1) -> dict[str, Any]:
    part = {"index": 0, "records": batch(b"v")}
    topics = [{"name": name, "partition_data": [part]} for name in (KNOWN, MISSING)]
    return {"acks": acks, "timeout": 1000, "topic_data": topics}


def _fetched(**fields: Any) -> dict[str, Any]:
    part = {"partition": 0, "current_leader_epoch": -1, "fetch_offset": 0, "log_start_offset": -1}
    part |= {"partition_max_bytes": 1 << 20, "last_fetched_epoch": -1}
    topics = [{"topic": name, "partitions": [part]} for name in (KNOWN, MISSING)]
    return {
        "replica_id": -1,
        "max_wait": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "session_epoch": -1,
        "topics": topics,
        **fields,
    }


ROWS = [
    Row(
        "produce",
        9,
        _produced(),
        lambda answer: [
            part.error_code for topic in answer.responses for part in topic.partition_responses
        ],
        [_TAF, _TAF],
        topic=_one(Operation.WRITE),
    ),
    Row(
        "fetch",
        12,
        _fetched(),
        lambda answer: [
            (part.error_code, part.high_watermark < 0, bool(part.records))
            for topic in answer.responses
            for part in topic.partitions
        ],
        [(_TAF, True, False)] * 2,
        topic=_one(Operation.READ),
    ),
    Row(
        "fetch",
        12,
        _fetched(replica_id=7),
        lambda answer: [part.error_code for topic in answer.responses for part in topic.partitions],
        [_TAF, _TAF],
        cluster=_one(Operation.CLUSTER_ACTION),
    ),
    Row(
        "list_offsets",
        7,
        {
            "replica_id": -1,
            "topics": _topics("name", "partitions", current_leader_epoch=-1, timestamp=-2),
        },
        _of_partitions("topics", "partitions", "offset", "timestamp", "leader_epoch"),
        [(_TAF, -1, -1, -1)] * 2,
        topic=_DESCRIBE,
    ),
    Row(
        "list_offsets",
        7,
        {
            "replica_id": -1,
            "topics": _topics("name", "partitions", current_leader_epoch=-1, timestamp=0),
        },
        _of_partitions("topics", "partitions", "offset", "timestamp", "leader_epoch"),
        [(_TAF, -1, -1, -1)] * 2,
        topic=_DESCRIBE,
    ),
    Row(
        "offset_for_leader_epoch",
        4,
        {
            "replica_id": -1,
            "topics": _topics("topic", "partitions", current_leader_epoch=-1, leader_epoch=0),
        },
        _of_partitions("topics", "partitions", "leader_epoch", "end_offset"),
        [(_TAF, -1, -1)] * 2,
        topic=_DESCRIBE,
        cluster=_one(Operation.CLUSTER_ACTION),
    ),
    Row(
        "metadata",
        12,
        {"topics": [{"name": KNOWN}, {"name": MISSING}], "allow_auto_topic_creation": False},
        _of_each("topics", "name", "topic_id", "is_internal", "partitions"),
        [(_TAF, KNOWN, None, False, ()), (_TAF, MISSING, None, False, ())],
        topic=_DESCRIBE,
    ),
    Row(
        "describe_topic_partitions",
        0,
        {
            "topics": [{"name": KNOWN}, {"name": MISSING}],
            "response_partition_limit": 10,
            "cursor": None,
        },
        _of_each("topics", "name", "topic_id", "is_internal", "partitions"),
        [(_TAF, KNOWN, None, False, ()), (_TAF, MISSING, None, False, ())],
        topic=_DESCRIBE,
    ),
    Row(
        "create_topics",
        7,
        {
            "topics": [
                {"name": name, "num_partitions": 1, "replication_factor": 1}
                for name in (KNOWN, MISSING, "a-not/valid")
            ],
            "timeout": 1000,
            "validate_only": True,
        },
        lambda answer: [(each.error_code, each.error_message) for each in answer.topics],
        [(_TAF, "Authorization failed.")] * 3,
        topic=_one(Operation.CREATE),
        cluster=_one(Operation.CREATE),
    ),
    Row(
        "delete_records",
        2,
        {
            "topics": [
                *_topics("name", "partitions", offset=0),
                {"name": "__consumer_offsets", "partitions": [{"offset": 0}]},
            ][:2],
            "timeout": 1000,
        },
        _of_partitions("topics", "partitions", "low_watermark"),
        [(_TAF, -1)] * 2,
        topic=_one(Operation.DELETE),
    ),
    Row(
        "create_partitions",
        3,
        {
            "topics": [
                {"name": KNOWN, "count": 9000, "assignments": None},
                {"name": MISSING, "count": 2, "assignments": None},
            ],
            "timeout": 1000,
            "validate_only": True,
        },
        _of_each("results", "name"),
        [(_TAF, KNOWN), (_TAF, MISSING)],
        topic=_one(Operation.ALTER),
    ),
    Row(
        "describe_producers",
        0,
        {"topics": [{"name": name, "partition_indexes": [0]} for name in (KNOWN, MISSING)]},
        _of_partitions("topics", "partitions", "active_producers"),
        [(_TAF, ())] * 2,
        topic=_one(Operation.READ),
    ),
    Row(
        "list_config_resources",
        1,
        {"resource_types": [_TOPIC_TYPE]},
        lambda answer: (answer.error_code, bool(answer.config_resources)),
        (_CAF, False),
        cluster=_DESCRIBE_CONFIGS,
    ),
    Row(
        "alter_replica_log_dirs",
        2,
        {
            "dirs": [
                {
                    "path": "/nowhere",
                    "topics": [{"name": KNOWN, "partitions": [0]}],
                }
            ]
        },
        _of_partitions("results", "partitions"),
        [(_CAF,)],
        cluster=_one(Operation.ALTER),
    ),
    Row(
        "describe_log_dirs",
        4,
        {"topics": None},
        lambda answer: (answer.error_code, bool(answer.results)),
        (_CAF, False),
        cluster=frozenset({Operation.DESCRIBE, Operation.ALTER}),
    ),
    Row(
        "describe_log_dirs",
        2,
        {"topics": None},
        lambda answer: bool(answer.results),
        False,
        cluster=frozenset({Operation.DESCRIBE, Operation.ALTER}),
    ),
    Row(
        "elect_leaders",
        2,
        {
            "topic_partitions": [{"topic": KNOWN, "partitions": [0]}],
            "timeout": 1000,
        },
        lambda answer: (
            answer.error_code,
            _of_partitions("replica_election_results", "partition_result")(answer),
        ),
        (_CAF, [(_CAF,)]),
        cluster=_one(Operation.ALTER),
    ),
    Row(
        "elect_leaders",
        0,
        {
            "topic_partitions": [{"topic": KNOWN, "partitions": [0]}],
            "timeout": 1000,
        },
        _of_partitions("replica_election_results", "partition_result"),
        [(_CAF,)],
        cluster=_one(Operation.ALTER),
    ),
    Row(
        "alter_partition_reassignments",
        1,
        {
            "timeout": 1000,
            "topics": [
                {"name": KNOWN, "partitions": [{"partition_index": 0, "replicas": None}]},
            ],
        },
        lambda answer: (answer.error_code, _of_partitions("responses", "partitions")(answer)),
        (_CAF, [(_CAF,)]),
        cluster=_one(Operation.ALTER),
    ),
    Row(
        "list_partition_reassignments",
        0,
        {"topics": None, "timeout": 1000},
        _code,
        _CAF,
        cluster=frozenset({Operation.DESCRIBE, Operation.ALTER}),
    ),
    Row(
        "unregister_broker",
        0,
        {"broker_id": 99},
        _code,
        _CAF,
        cluster=_one(Operation.ALTER),
    ),
    Row(
        "describe_quorum",
        2,
        {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]},
        lambda answer: (answer.error_code, bool(answer.topics), bool(answer.nodes)),
        (_CAF, False, False),
        cluster=frozenset({Operation.DESCRIBE, Operation.ALTER}),
    ),
    Row(
        "update_features",
        1,
        {
            "timeout": 1000,
            "feature_updates": [
                {"feature": "no.such", "max_version_level": 1, "upgrade_type": 1},
            ],
            "validate_only": True,
        },
        _code,
        _CAF,
        cluster=_one(Operation.ALTER),
    ),
    Row(
        "describe_client_quotas",
        1,
        {"components": [], "strict": False},
        lambda answer: (answer.error_code, answer.entries),
        (_CAF, None),
        cluster=_DESCRIBE_CONFIGS,
    ),
    Row(
        "alter_client_quotas",
        1,
        {
            "entries": [
                {
                    "entity": [{"entity_type": "user", "entity_name": name}],
                    "ops": [{"key": "producer_byte_rate", "value": 0.0, "remove": True}],
                }
                for name in ("one", "two")
            ],
            "validate_only": False,
        },
        _of_each("entries", "entity"),
        None,
        cluster=_one(Operation.ALTER_CONFIGS),
    ),
    Row(
        "describe_user_scram_credentials",
        0,
        {"users": [{"name": "nobody"}]},
        _code,
        _CAF,
        cluster=frozenset({Operation.DESCRIBE, Operation.ALTER}),
    ),
    Row(
        "alter_user_scram_credentials",
        0,
        {
            "deletions": [{"name": "nobody", "mechanism": 1}],
            "upsertions": [
                {
                    "name": "weak",
                    "mechanism": 1,
                    "iterations": 1,
                    "salt": b"salt",
                    "salted_password": b"p" * 32,
                }
            ],
        },
        _of_each("results", "user"),
        [(_CAF, "nobody"), (_CAF, "weak")],
        cluster=_one(Operation.ALTER),
    ),
    Row(
        "describe_cluster",
        2,
        {"include_cluster_authorized_operations": True, "endpoint_type": 1},
        lambda answer: (
            answer.error_code,
            bool(answer.brokers),
            answer.cluster_authorized_operations != 0,
        ),
        (0, True, False),
        cluster=frozenset({Operation.DESCRIBE, Operation.ALTER}),
    ),
    Row(
        "metadata",
        10,
        {"topics": [], "include_cluster_authorized_operations": True},
        lambda answer: (bool(answer.brokers), answer.cluster_authorized_operations != 0),
        (True, False),
        cluster=frozenset({Operation.DESCRIBE, Operation.ALTER}),
    ),
    *_config_rows(),
]


def _name(row: Row) -> str:
    return f"{row.api}-{row.version}"


@pytest.mark.parametrize("row", ROWS, ids=_name)
def test_each_right(secured: SecuredDrumlin, row: Row) -> None:
    create_topic(secured, KNOWN)
    with secured.connect() as root, secured.login("alice") as alice:
        allowed, denied = _told(row, root), _told(row, alice)
        assert denied != allowed
        if row.denied is not None:
            assert denied == row.denied
        for right in filter(row.suffices, _RIGHTS):
            with granted(secured, right):
                assert _told(row, alice) == allowed, right
        with granted(secured, *(right for right in _RIGHTS if not row.suffices(right))):
            assert _told(row, alice) == denied


def _told(row: Row, client: RawClient) -> Any:
    return row.told(client.ask(row.api, row.version, **row.fields))
