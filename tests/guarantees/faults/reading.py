"""What can be read of a partition in the end."""

from __future__ import annotations

from typing import Any, NamedTuple

from guarantees.faults.worker import check
from rig.data.batches import describe_batches
from rig.data.raw import RawClient

_CONTROL = 0x20


class Read(NamedTuple):
    """One record."""

    offset: int
    value: bytes


def read_all(client: RawClient, topic: str, *, committed: bool = False) -> list[Read]:
    """All records of a topic of one partition; those of transactions only if they are committed."""
    found: list[Read] = []
    aborted: list[tuple[int, int]] = []  # producers, and where their transactions began
    offset = 0
    while True:
        part = _fetch(client, topic, offset, committed)
        aborted += [
            (each.producer_id, each.first_offset) for each in part.aborted_transactions or ()
        ]
        before = offset
        for batch in describe_batches(bytes(part.records or b"")):
            if "cut_off_bytes" in batch:
                continue
            base_offset, producer_id = batch["base_offset"], batch["producer_id"]
            assert batch["crc_is_right"], f"{topic}: a wrong CRC at {base_offset}"
            hides = [each for each in aborted if each[0] == producer_id and each[1] <= base_offset]
            if batch["attributes"] & _CONTROL:
                aborted = [each for each in aborted if each not in hides]
            elif not hides:
                at = (base_offset + record["offset_delta"] for record in batch["records"])
                values = (record["value"] for record in batch["records"])
                found += [Read(*each) for each in zip(at, values, strict=True) if each[0] >= offset]
            offset = base_offset + batch["last_offset_delta"] + 1
        end_offset = part.last_stable_offset if committed else part.high_watermark
        if offset >= end_offset or offset == before:
            return found


def _fetch(client: RawClient, topic: str, offset: int, committed: bool) -> Any:
    answer = client.ask(
        "fetch",
        11,
        replica_id=-1,
        max_bytes=1 << 20,
        session_epoch=-1,
        isolation_level=int(committed),
        topics=[
            {
                "topic": topic,
                "partitions": [
                    {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
                ],
            }
        ],
    )
    part = answer.responses[0].partitions[0]
    check(part.error_code, f"fetch {topic}")
    return part
