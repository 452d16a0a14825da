"""What a broker says of partitions that another broker leads, and of keys that it coordinates."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.many_brokers import cluster, key_of, port
from drumlin.broker.start.broker import Broker
from drumlin.metadata.names import GROUP_METADATA, SHARE_GROUP_STATE, TRANSACTION_STATE
from rig.data.batches import batch
from rig.data.messages import render
from rig.data.raw import RawClient

Ask = Callable[..., Any]


def on_the_wrong_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, test: Callable[[Ask, Broker], None]
) -> None:
    """`test` asks broker 1; broker 2 leads partition 1 of `t`, and half of the coordinators'."""

    async def main() -> None:
        async with cluster(tmp_path, monkeypatch) as brokers:
            for name in ("t", GROUP_METADATA, SHARE_GROUP_STATE, TRANSACTION_STATE):
                await brokers[0].metadata.create_topic(name, [[1], [2]], {})

            def run() -> None:
                with RawClient(port(brokers[0])) as client:
                    test(
                        lambda api, version, **fields: render(client.ask(api, version, **fields)),
                        brokers[0],
                    )

            await asyncio.to_thread(run)

    asyncio.run(main())


def codes_in(answer: Any) -> list[str]:
    """All error codes of an answer."""
    if isinstance(answer, dict):
        own = [
            str(value)
            for key, value in answer.items()
            if key.endswith("error_code") and value not in ("none", 0)
        ]
        return own + [code for each in answer.values() for code in codes_in(each)]
    if isinstance(answer, list | tuple):
        return [code for each in answer for code in codes_in(each)]
    return []


def partition_requests(index: int) -> dict[str, tuple[int, dict[str, Any]]]:
    """Requests about one partition that only its leader answers."""
    marker = {
        "producer_id": 7,
        "producer_epoch": 0,
        "transaction_result": True,
        "coordinator_epoch": 0,
        "topics": [{"name": "t", "partition_indexes": [index]}],
    }
    of_epoch = {"partition": index, "current_leader_epoch": -1, "leader_epoch": 0}
    by_time = {"partition_index": index, "current_leader_epoch": -1, "timestamp": -1}
    return {
        "list_offsets": (
            7,
            {
                "replica_id": -1,
                "isolation_level": 0,
                "topics": [{"name": "t", "partitions": [by_time]}],
            },
        ),
        "offset_for_leader_epoch": (
            4,
            {"replica_id": -1, "topics": [{"topic": "t", "partitions": [of_epoch]}]},
        ),
        "delete_records": (
            2,
            {
                "timeout": 1000,
                "topics": [{"name": "t", "partitions": [{"partition_index": index, "offset": 0}]}],
            },
        ),
        "describe_producers": (0, {"topics": [{"name": "t", "partition_indexes": [index]}]}),
        "write_txn_markers": (1, {"markers": [marker]}),
        "produce": (
            9,
            {
                "acks": 1,
                "timeout": 1000,
                "transactional_id": None,
                "topic_data": [
                    {"name": "t", "partition_data": [{"index": index, "records": batch(b"x")}]}
                ],
            },
        ),
    }


@pytest.mark.parametrize("api", partition_requests(0))
def test_who_leads_a_partition_is_another_matter_than_whether_it_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, api: str
) -> None:
    def test(ask: Ask, _: Broker) -> None:
        found = [
            codes_in(ask(api, version, **fields))
            for version, fields in (partition_requests(index)[api] for index in range(3))
        ]
        assert found == [[], ["not_leader_or_follower"], ["unknown_topic_or_partition"]]

    on_the_wrong_one(tmp_path, monkeypatch, test)


def test_a_member_of_a_share_group_is_told_who_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def test(ask: Ask, broker: Broker) -> None:
        topic_id = broker.metadata.image.topics["t"].topic_id
        who = {"group_id": "g", "member_id": str(uuid.uuid4())}
        said = {"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}
        for index in range(2):
            fetched = {"partition_index": index, "acknowledgement_batches": []}
            answer = ask(
                "share_fetch",
                1,
                **who,
                share_session_epoch=index,
                max_wait=0,
                min_bytes=1,
                max_bytes=1000,
                max_records=1,
                batch_size=1,
                topics=[{"topic_id": topic_id, "partitions": [fetched]}],
                forgotten_topics_data=[],
            )
            if index == 1:
                check(answer, broker, "error_code")
        acknowledged = {"partition_index": 1, "acknowledgement_batches": [said]}
        answer = ask(
            "share_acknowledge",
            1,
            **who,
            share_session_epoch=2,
            topics=[{"topic_id": topic_id, "partitions": [acknowledged]}],
        )
        check(answer, broker, "error_code")

    def check(answer: Any, broker: Broker, field: str) -> None:
        (told,) = (
            each
            for topic in answer["responses"]
            for each in topic["partitions"]
            if each["partition_index"] == 1
        )
        assert told[field] == "not_leader_or_follower"
        assert told["current_leader"] == {"leader_id": 2, "leader_epoch": 0}
        (node,) = answer["node_endpoints"]
        (endpoint,) = broker.metadata.image.brokers[2].endpoints
        assert (node["node_id"], node["port"]) == (2, endpoint.port)

    on_the_wrong_one(tmp_path, monkeypatch, test)


def test_what_another_broker_coordinates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def test(ask: Ask, broker: Broker) -> None:
        group = key_of(broker, GROUP_METADATA, 2, "g")
        name = key_of(broker, TRANSACTION_STATE, 2, "id")
        producer = {"producer_id": 5, "producer_epoch": 0}
        asked = {
            "init_producer_id": (
                4,
                {"transactional_id": name, "transaction_timeout": 1000, "producer_id": -1}
                | {"producer_epoch": -1},
            ),
            "end_txn": (4, {"transactional_id": name, "committed": True} | producer),
            "add_offsets_to_txn": (3, {"transactional_id": name, "group_id": group} | producer),
            "describe_transactions": (0, {"transactional_ids": [name]}),
            "heartbeat": (4, {"group_id": group, "generation_id": 1, "member_id": "m"}),
            "describe_groups": (5, {"groups": [group], "include_authorized_operations": False}),
            "consumer_group_describe": (
                0,
                {"group_ids": [group], "include_authorized_operations": False},
            ),
            "share_group_describe": (
                1,
                {"group_ids": [group], "include_authorized_operations": False},
            ),
            "delete_groups": (2, {"groups_names": [group]}),
            "describe_share_group_offsets": (
                0,
                {"groups": [{"group_id": group, "topics": None}]},
            ),
        }
        for api, (version, fields) in asked.items():
            assert codes_in(ask(api, version, **fields)) == ["not_coordinator"], api
        # Those that are here are asked for by no name.
        assert codes_in(ask("list_groups", 4, states_filter=[])) == []
        assert codes_in(ask("list_transactions", 0, state_filters=[], producer_id_filters=[])) == []

    on_the_wrong_one(tmp_path, monkeypatch, test)
