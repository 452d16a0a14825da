"""DescribeCluster and DescribeLogDirs: what Apache Kafka 4.3 answered to the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.conftest import Ask
from rig.brokers.drumlin_server import DrumlinServer

Create = Callable[..., str]
NOT_ASKED = -(2**31)


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize(("asked", "operations"), [(True, 8096), (False, NOT_ASKED)])
def test_the_cluster(
    ask: Ask, server: DrumlinServer, version: int, asked: bool, operations: int
) -> None:
    fields: dict[str, Any] = {"include_cluster_authorized_operations": asked}
    answer = ask("describe_cluster", version, **fields)
    assert len(answer["cluster_id"]) == 22
    assert (answer["error_code"], answer["controller_id"]) == ("none", 1)
    assert answer["cluster_authorized_operations"] == operations
    (broker,) = answer["brokers"]
    assert (broker["broker_id"], broker["host"], broker["port"]) == (1, "127.0.0.1", server.port)
    assert broker.get("is_fenced", False) is False


@pytest.mark.parametrize(
    ("endpoint_type", "code", "message"),
    [
        (
            2,
            "mismatched_endpoint_type",
            "this endpoint is a broker's, and a controller's is asked for",
        ),
        (3, "unsupported_endpoint_type", "no endpoints have type 3"),
        (0, "unsupported_endpoint_type", "no endpoints have type 0"),
    ],
)
def test_other_endpoints(ask: Ask, endpoint_type: int, code: str, message: str) -> None:
    assert ask("describe_cluster", 1, endpoint_type=endpoint_type) == {
        "throttle_time": 0,
        "error_code": code,
        "error_message": message,
        "endpoint_type": 1,
        "cluster_id": "",
        "controller_id": -1,
        "brokers": [],
        "cluster_authorized_operations": NOT_ASKED,
    }


@pytest.mark.parametrize("version", range(1, 6))
def test_log_dirs(ask: Ask, create: Create, server: DrumlinServer, version: int) -> None:
    name = create(partitions=3)
    wanted = [{"topic": name, "partitions": [0, 1, 99]}, {"topic": name, "partitions": [1]}]
    (result,) = ask("describe_log_dirs", version, topics=wanted)["results"]
    assert (result["error_code"], result["log_dir"]) == ("none", str(server.data))
    partition = {"partition_size": 0, "offset_lag": 0, "is_future_key": False}
    assert result["topics"] == [
        {"name": name, "partitions": [{"partition_index": index, **partition} for index in (0, 1)]}
    ]
    if version >= 4:
        assert 0 < result["usable_bytes"] < result["total_bytes"]
    assert result.get("is_cordoned", False) is False


def test_which_log_dirs(ask: Ask, create: Create) -> None:
    name = create()
    for wanted in (
        [],
        [{"topic": "nowhere", "partitions": [0]}],
        [{"topic": name, "partitions": []}],
    ):
        (result,) = ask("describe_log_dirs", 4, topics=wanted)["results"]
        assert result["topics"] == []
    (result,) = ask("describe_log_dirs", 4, topics=None)["results"]
    assert name in [each["name"] for each in result["topics"]]
