"""A counting service, as a program and in a test: how often each key of a topic occurs.

The state has the counts; each batch writes the new counts of its keys to the output. Read to its
end by an unmodified reader of committed records, the output has each count from 1 to the number of
the key's records exactly once, in order.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter, defaultdict
from typing import Any

import drumlin
from drumlin.client.client import Client
from drumlin.state import Processor
from drumlin.state.changelog_format import POSITION_KEY, changelog_name
from rig.waiting import wait_until


def count(processor: Processor, output: str, pause_s: float = 0, until: int | None = None) -> int:
    """Count until nothing comes, or so many have come; returns the number of records."""
    records = 0
    for batch in processor:
        for key in batch.column("key").to_pylist():
            number = int(processor.state.get(key, b"0")) + 1
            processor.state[key] = b"%d" % number
            processor.send(output, b"%d" % number, key)
            records += 1
        if records == until:
            break
        time.sleep(pause_s)
    return records


def committed(client: Client, topic: str) -> list[tuple[bytes, bytes]]:
    """All committed records, in the order of their partitions and offsets."""
    table = client.read(topic, isolation="read_committed")
    return list(zip(*(table.column(each).to_pylist() for each in ("key", "value")), strict=True))


def check(client: Client, topic: str, output: str, group: str, wanted: Counter[bytes]) -> None:
    """Output and changelog are what the input says: each record was counted once."""
    changelog = changelog_name(group, "counts")
    for each in (output, changelog):
        # Markers may come to one topic after they have come to another.
        wait_until(lambda each=each: _is_decided(client, each), f"the last marker in {each}")
    numbers: dict[bytes, list[int]] = defaultdict(list)
    for key, value in committed(client, output):
        numbers[key].append(int(value))
    for key, times in wanted.items():
        assert numbers[key] == list(range(1, times + 1)), (key, times)
    assert numbers.keys() == wanted.keys()
    latest = dict(committed(client, changelog))
    latest.pop(POSITION_KEY)
    assert latest == {key: b"%d" % times for key, times in wanted.items()}
    ends = client.offsets(topic)
    told = {
        partition: json.loads(value)["offset"]
        for partition, value in _positions(client, changelog).items()
    }
    offsets = {
        place.partition: each.offset for place, each in client.committed_offsets(group).items()
    }
    assert offsets == {partition: ends[partition] for partition in offsets}
    assert told == offsets


def _is_decided(client: Client, topic: str) -> bool:
    return client.offsets(topic, isolation="read_committed") == client.offsets(topic)


def _positions(client: Client, changelog: str) -> dict[int, bytes]:
    rows: list[dict[str, Any]] = client.snapshot(changelog).to_pylist()
    return {row["partition"]: row["value"] for row in rows if row["key"] == POSITION_KEY}


def main(bootstrap: str, topic: str, group: str, output: str, pause_s: str, options: str) -> None:
    """Run until killed, or until nothing has come for long; `options` as JSON."""
    with drumlin.state.processor(
        topic,
        group=group,
        state="counts",
        bootstrap=bootstrap,
        commit_interval_ms=50,
        session_timeout_ms=2_000,
        heartbeat_interval_ms=200,
        idle_timeout_ms=60_000,
        **json.loads(options),
    ) as processor:
        count(processor, output, float(pause_s))


if __name__ == "__main__":
    main(*sys.argv[1:])
