"""5,000 partitions on one broker: how soon it serves again after a clean stop, and what one that
lies idle costs in memory, descriptors and disk.

Every partition holds one record. "Ready" is from the start of the process until the leaders of
all partitions are known and the first and the last one answer.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.brokers import Broker, brokers
from bench.harness import Comparison, Metric, Metrics, Options, compare
from bench.load import batch_of
from rig.data.raw import Closed
from rig.waiting import wait_until

PARTITIONS = 5000
_PRODUCE, _METADATA = 13, 12
_AT_ONCE = 500  # partitions in one produce request
_ROUNDS = 3
_METRICS = (
    Metric("seconds", "s until ready", higher_is_better=False, limit=5.0),
    Metric("memory", "KiB of memory/partition", higher_is_better=False),
    Metric("descriptors", "descriptors/partition", higher_is_better=False),
    Metric("disk", "KiB of disk/partition", higher_is_better=False, limit=16.0),
)


def run(options: Options) -> list[Comparison]:
    """Both brokers, each with one topic of 5,000 partitions."""
    with brokers(options) as (ours, theirs):
        sides = {each.name: _round(each, options) for each in (ours, theirs)}
        fewer = dataclasses.replace(options, rounds=min(options.rounds, _ROUNDS), warmup=0)
        return compare("partitions", f"{PARTITIONS:,} partitions", _METRICS, sides, fewer)


def _round(broker: Broker, options: Options) -> Callable[[], Metrics]:
    empty_bytes, empty_descriptors = resident_bytes(broker.pid), _descriptors(broker.pid)
    data = options.directory / broker.name.lower() / "data"
    empty_disk = _allocated_bytes(data)
    topic = broker.create_topic(PARTITIONS)
    _write_one_record_each(broker, topic)

    def measure() -> Metrics:
        broker.process.terminate(timeout_s=300)
        started = time.perf_counter()
        broker.process.start()
        wait_until(lambda: _serves(broker, topic), f"{broker.name} to serve", 300)
        seconds = time.perf_counter() - started
        return {
            "seconds": seconds,
            "memory": (resident_bytes(broker.pid) - empty_bytes) / 1024 / PARTITIONS,
            "descriptors": (_descriptors(broker.pid) - empty_descriptors) / PARTITIONS,
            "disk": (_allocated_bytes(data) - empty_disk) / 1024 / PARTITIONS,
        }

    return measure


def _write_one_record_each(broker: Broker, topic: str) -> None:
    wait_until(lambda: _serves(broker, topic), f"{broker.name} to create {PARTITIONS}", 300)
    topic_id, batch = broker.topic_id(topic), batch_of(300)
    for first in range(0, PARTITIONS, _AT_ONCE):
        data = [{"index": each, "records": batch} for each in range(first, first + _AT_ONCE)]
        fields = {"topic_id": topic_id, "partition_data": data}

        def write(fields: dict[str, Any] = fields) -> bool:
            # Leaders that were elected may still be on their way to the broker's partitions.
            answer = broker.ask("produce", _PRODUCE, acks=1, timeout=60_000, topic_data=[fields])
            return all(each.error_code == 0 for each in answer.responses[0].partition_responses)

        wait_until(write, f"{broker.name} to write to partitions from {first} on", 60)


def _serves(broker: Broker, topic: str) -> bool:
    try:
        answer: Any = broker.ask("metadata", _METADATA, topics=[{"name": topic}]).topics[0]
        has_leaders = all(each.error_code == 0 for each in answer.partitions)
        if len(answer.partitions) < PARTITIONS or not has_leaders:
            return False
        for partition in (0, PARTITIONS - 1):
            broker.end_offset(topic, partition)
    except (OSError, Closed, RuntimeError):
        return False
    return True


def resident_bytes(pid: int) -> int:
    """Memory of a process, pages of files included."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no VmRSS for {pid}")


def _descriptors(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def _allocated_bytes(directory: Path) -> int:
    """What the files take on disk, which sparse and preallocated ones do not tell by their size."""
    return sum(path.lstat().st_blocks * 512 for path in directory.rglob("*"))
