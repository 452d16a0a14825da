"""What clients send in the longest strings there are can be told to others: every answer fits, also
with what an operator has configured.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.conftest import Ask
from drumlin.wire.messages import encode_request
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.messages import build
from rig.data.raw import RawClient
from rig.waiting import wait_until

_LONGEST = 32_767
#: Each of these bytes is replaced by three.
_NOT_UTF_8 = b"\xff" * _LONGEST


def _send(client: RawClient, client_id: bytes, version: int, **fields: Any) -> None:
    """A JoinGroup request whose client id is these bytes."""
    place = "i" * _LONGEST
    message = build("join_group", version, fields)
    frame = b"".join(encode_request("join_group", version, 1, place, message))
    client.send_bytes(frame.replace(place.encode(), client_id, 1))


@pytest.mark.parametrize(
    ("client_id", "instance_id"),
    [(b"c" * _LONGEST, None), (_NOT_UTF_8, None), (_NOT_UTF_8, "s" * _LONGEST)],
    ids=["client id", "client id that is not UTF-8", "static member"],
)
def test_a_group_is_described_whatever_its_members_are_called(
    ask: Ask,
    server: DrumlinServer,
    topic_name: Callable[[str], str],
    client_id: bytes,
    instance_id: str | None,
) -> None:
    group_id = topic_name("group")
    join = {
        "group_id": group_id,
        "session_timeout": 30_000,
        "rebalance_timeout": 30_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"m"}],
    }
    wait_until(
        lambda: (
            ask("find_coordinator", 4, key_type=0, coordinator_keys=[group_id])["coordinators"][0][
                "error_code"
            ]
            == "none"
        ),
        "the coordinator",
    )
    with server.connect() as client:
        if instance_id is None:
            _send(client, client_id, 4, **join)
            answer = client.receive("join_group", 4)
            assert answer.error_code.name == "member_id_required"
            join["member_id"] = answer.member_id
        _send(client, client_id, 5, group_instance_id=instance_id, **join)

        def members() -> list[dict[str, Any]]:
            return list(ask("describe_groups", 5, groups=[group_id])["groups"][0]["members"])

        wait_until(lambda: len(members()) == 1, "the member")
        (member,) = members()
        assert len(member["client_id"].encode()) <= _LONGEST
        assert member["group_instance_id"] == instance_id
        assert client.receive("join_group", 5).member_id == member["member_id"]


def test_a_value_does_not_grow_beyond_a_string(ask: Ask, create: Callable[..., str]) -> None:
    """As in Apache Kafka: one that did could not be described any more."""
    resource: dict[str, Any] = {"resource_type": 2, "resource_name": create()}
    key, append = "leader.replication.throttled.replicas", 2

    def grow(number: int, count: int) -> str:
        value = ",".join(f"{each}:{number}" for each in range(count))
        config = {"name": key, "config_operation": append, "value": value}
        asked = [{**resource, "configs": [config]}]
        (told,) = ask("incremental_alter_configs", 1, resources=asked)["responses"]
        return str(told["error_code"])

    assert [grow(number, 3_500) for number in range(3)] == [
        "none",
        "invalid_config",
        "invalid_config",
    ]
    assert grow(3, 10) == "none"
    (told,) = ask("describe_configs", 4, resources=[{**resource, "configuration_keys": [key]}])[
        "results"
    ]
    (entry,) = told["configs"]
    assert entry["value"].endswith(",9:3")


def test_what_an_operator_has_configured_is_cut_where_no_string_carries_it(tmp_path: Path) -> None:
    """Each of these characters takes three bytes in a string of at most 32,767 bytes."""
    rack, host = "\N{EURO SIGN}" * 20_000, "h" * 40_000
    listeners = f"PLAINTEXT://{host}:9092"
    server = DrumlinServer(tmp_path, {"broker.rack": rack, "advertised.listeners": listeners})
    server.start()
    asked = [{"resource_type": 4, "resource_name": "1"}]
    try:
        with server.connect() as client:
            for version in (1, 4):
                (result,) = client.ask(
                    "describe_configs", version, resources=asked, include_synonyms=True
                ).results
                values = {each.name: each.value for each in result.configs}
                assert values["broker.rack"] == rack[: _LONGEST // 3]
                assert values["advertised.listeners"] == listeners[:_LONGEST]
            for version in (8, 12):
                (broker,) = client.ask("metadata", version, topics=None).brokers
                assert (broker.host, broker.rack) == (host[:_LONGEST], rack[: _LONGEST // 3])
            (broker,) = client.ask("describe_cluster", 0).brokers
            assert broker.host == host[:_LONGEST]
        assert "failed" not in server.said()
    finally:
        server.close()
