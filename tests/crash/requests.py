"""The few requests that these tests need, each failing with what the broker said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drumlin.wire.error_codes import ErrorCode
from rig.data.batches import describe_batches
from rig.data.raw import RawClient
from rig.waiting import wait_until


def create_topic(
    client: RawClient, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None
) -> None:
    settings = [{"name": key, "value": value} for key, value in (configs or {}).items()]
    wanted = {"name": topic, "num_partitions": partitions, "replication_factor": 1}
    answer = client.ask("create_topics", 7, topics=[wanted | {"configs": settings}], timeout=5000)
    assert answer.topics[0].error_code == ErrorCode.none, answer


def produce(client: RawClient, topic: str, data: bytes, partition: int = 0) -> Any:
    """The answer for the one partition, whatever it is."""
    entry = {"name": topic, "partition_data": [{"index": partition, "records": data}]}
    answer = client.ask("produce", 9, acks=-1, timeout=10_000, topic_data=[entry])
    return answer.responses[0].partition_responses[0]


def fetch(client: RawClient, topic: str, offset: int, partition: int = 0) -> Any:
    """The answer for the one partition, at once."""
    wanted = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    answer = client.ask(
        "fetch",
        11,
        replica_id=-1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[{"topic": topic, "partitions": [wanted]}],
    )
    return answer.responses[0].partitions[0]


def read_all(client: RawClient, topic: str, partition: int = 0) -> list[bytes]:
    """The values of a partition, from offset 0 to the high watermark, without a gap."""
    values: list[bytes] = []
    while True:
        answer = fetch(client, topic, len(values), partition)
        assert answer.error_code == ErrorCode.none, answer
        for batch in describe_batches(bytes(answer.records)):
            if "cut_off_bytes" in batch:
                continue
            assert batch["crc_is_right"]
            skipped = len(values) - batch["base_offset"]
            assert skipped >= 0, f"a gap before offset {batch['base_offset']}"
            values += [record["value"] for record in batch["records"]][skipped:]
        if len(values) >= answer.high_watermark:
            return values


def await_coordinator(client: RawClient, group: str) -> None:
    def is_ready() -> bool:
        request = {"key_type": 0, "coordinator_keys": [group]}
        found = client.ask("find_coordinator", 4, **request).coordinators[0]
        if found.error_code != ErrorCode.none:
            return False
        described = client.ask("describe_groups", 5, groups=[group]).groups[0]
        return bool(described.error_code == ErrorCode.none)

    wait_until(is_ready, f"the coordinator of {group}")


def commit(client: RawClient, group: str, topic: str, offset: int) -> None:
    partition = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1}
    answer = client.ask(
        "offset_commit",
        8,
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[{"name": topic, "partitions": [partition]}],
    )
    assert answer.topics[0].partitions[0].error_code == ErrorCode.none, answer


def committed(client: RawClient, group: str, topic: str) -> int:
    wanted = {"group_id": group, "topics": [{"name": topic, "partition_indexes": [0]}]}
    answer = client.ask("offset_fetch", 8, groups=[wanted]).groups[0]
    assert answer.error_code == ErrorCode.none, answer
    return int(answer.topics[0].partitions[0].committed_offset)
