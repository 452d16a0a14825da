"""Who asks for rights, users, tokens, quotas and the quorum: beside what Apache Kafka answers."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from broker.sessions import SESSION
from drumlin.broker.apis.features import FEATURES, UPGRADE, check_update
from drumlin.broker.apis.first_use import handler_module
from drumlin.broker.context import RequestContext
from drumlin.broker.handlers import describe_quorum
from drumlin.broker.quotas.requests import checked_changes
from drumlin.metadata.image import BrokerState, ClusterImage
from drumlin.turns import to_end
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import RequestHeader
from rig.data.messages import build, render
from rig.time.stepped import Stepped

_ENTRIES = 2_000
_ACL = {"resource_type": 2, "resource_pattern_type": 3, "operation": 3, "permission_type": 3}
_FILTER = {
    "resource_type_filter": 2,
    "pattern_type_filter": 3,
    "operation": 3,
    "permission_type": 3,
}
_USER = {"entity_type": "user", "entity_name": "a"}
_ASKED = {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}


def answer(api: str, version: int, **fields: Any) -> tuple[int, Any]:
    """In how many steps a handler answers a request, and what."""
    handling = handler_module(api).handle(context(version), build(api, version, fields))
    work = Stepped(handling)
    steps = 0
    while True:
        try:
            next(work)
        except StopIteration as done:
            return steps, render(done.value)
        steps += 1


def context(version: int, image: ClusterImage | None = None) -> RequestContext:
    broker: Any = SimpleNamespace(
        authorizer=None,
        quotas=None,
        metadata=SimpleNamespace(image=image or ClusterImage("cluster")),
    )
    connection: Any = None
    return RequestContext(broker, connection, RequestHeader(0, version, 1, "c", 0), SESSION)


@pytest.mark.parametrize(
    ("api", "version", "fields"),
    [
        ("create_acls", 3, {"creations": [_ACL] * _ENTRIES}),
        ("delete_acls", 3, {"filters": [_FILTER] * _ENTRIES}),
        (
            "alter_user_scram_credentials",
            0,
            {
                "deletions": [{"name": str(each)} for each in range(_ENTRIES)],
                "upsertions": [{"name": str(each)} for each in range(_ENTRIES)],
            },
        ),
        (
            "alter_client_quotas",
            1,
            {"entries": [{"entity": [_USER], "ops": [{"key": "a", "remove": True}]}] * _ENTRIES},
        ),
        (
            "alter_client_quotas",
            1,
            {
                "entries": [
                    {
                        "entity": [_USER] * _ENTRIES,
                        "ops": [{"key": str(each), "remove": True} for each in range(_ENTRIES)],
                    }
                ]
            },
        ),
        (
            "update_features",
            1,
            {
                "feature_updates": [
                    {"feature": "group.version", "max_version_level": 1, "upgrade_type": 1}
                ]
                * _ENTRIES
            },
        ),
        ("describe_quorum", 2, {"topics": [_ASKED] * _ENTRIES}),
    ],
)
def test_other_requests_have_their_turn(api: str, version: int, fields: dict[str, Any]) -> None:
    steps, _ = answer(api, version, **fields)
    assert steps >= _ENTRIES


def test_many_users_are_looked_for_in_turns() -> None:
    users = [{"name": str(each)} for each in range(_ENTRIES)]
    steps, told = answer("describe_user_scram_credentials", 0, users=users)
    assert steps >= _ENTRIES
    assert len(told["results"]) == _ENTRIES


@pytest.mark.parametrize("value", [math.nan, -math.inf, 2.0**64])
def test_a_quota_that_is_no_rate(value: float) -> None:
    op: Any = SimpleNamespace(key="producer_byte_rate", value=value, remove=False)
    with pytest.raises(KafkaError, match="must be") as refused:
        to_end(checked_changes({"user": None}, (op,)))
    assert refused.value.code is ErrorCode.invalid_request


@pytest.mark.parametrize("feature", FEATURES, ids=lambda each: each.name)
def test_a_level_is_what_it_is(feature: Any) -> None:
    check_update(feature.name, feature.highest, UPGRADE)
    for lower in range(feature.lowest, feature.highest):
        with pytest.raises(KafkaError, match="cannot be lowered"):
            check_update(feature.name, lower, upgrade_type=3)


def quorum_of(image: ClusterImage) -> Any:
    request = build("describe_quorum", 2, {"topics": [_ASKED]})
    told = render(to_end(describe_quorum.handle(context(2, image), request)))
    return told["topics"][0]["partitions"][0], told["nodes"]


def test_the_controller_is_the_quorum() -> None:
    image = ClusterImage("cluster", controller_id=2, controller_epoch=7)
    for node_id in (3, 1, 2):
        image.put_broker(BrokerState(node_id, None, ()))
    told, nodes = quorum_of(image)
    assert (told["error_code"], told["leader_id"], told["leader_epoch"]) == ("none", 2, 7)
    assert [each["replica_id"] for each in told["current_voters"]] == [2]
    assert [each["replica_id"] for each in told["observers"]] == [1, 3]
    assert {each["log_end_offset"] for each in told["current_voters"] + told["observers"]} == {-1}
    assert nodes == [{"node_id": 2, "listeners": []}]


def test_without_a_controller_it_has_no_leader() -> None:
    image = ClusterImage("cluster")
    image.put_broker(BrokerState(1, None, ()))
    told, nodes = quorum_of(image)
    assert (told["error_code"], told["leader_id"]) == ("not_leader_or_follower", -1)
    assert (told["current_voters"], nodes) == ([], [])
    assert [each["replica_id"] for each in told["observers"]] == [1]
