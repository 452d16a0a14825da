"""What tests of restoring read: the restored topic, and what it must be."""

from __future__ import annotations

from typing import Any

from drumlin.client.client import Client
from rig.waiting import wait_until
from spark.state.history import History, State

#: All paths run: many tasks, and many batches in segments of the history's size.
TINY: dict[str, Any] = {
    "taskMemory": 3000,
    "minPartitions": 7,
    "reducers": 3,
    "batchBytes": 2000,
    "kafka.batch.size": 2000,
}

_NAMES = ["partition", "key", "value", "headers", "timestamp"]


def committed(client: Client, topic: str) -> list[dict[str, Any]]:
    """What a reader of committed records sees, in order, without offsets."""

    def is_settled() -> bool:
        return client.offsets(topic) == client.offsets(topic, isolation="read_committed")

    wait_until(is_settled, "transactions to end")
    rows: list[dict[str, Any]] = client.read(
        topic, columns=_NAMES, isolation="read_committed"
    ).to_pylist()
    return rows


def state_in(client: Client, topic: str) -> State:
    """A restored state; each key must have come once."""
    rows = committed(client, topic)
    found = {(row["partition"], row["key"]): row["value"] for row in rows}
    assert len(found) == len(rows), "a key came twice"
    return found


def log_of(client: Client, topic: str, ends: dict[int, int]) -> list[dict[str, Any]]:
    """The committed records up to these offsets, as `committed` gives them."""
    log = client.read(topic, columns=["offset", *_NAMES], isolation="read_committed").to_pylist()
    return [
        {name: row[name] for name in _NAMES}
        for row in log
        if row["offset"] < ends[row["partition"]]
    ]


def middle(history: History) -> dict[int, int]:
    """Offsets in the part of the log that was not compacted."""
    end = history.end()
    return {each: (first + end[each]) // 2 for each, first in history.compacted_end.items()}
