"""Ids of tasks' transactions: a worker that serves many writes remembers few, and repeats none."""

from __future__ import annotations

import pickle
from collections.abc import Generator
from typing import Any

from drumlin.spark.writing.protocol.own_ids import OwnIds
from drumlin.spark.writing.protocol.transactions import Opened


def chosen(ids: OwnIds, sink: str) -> str:
    """For a task that then lets go of its transaction."""
    steps: Generator[Any, Any, str] = ids.choose(sink, "run", None)
    try:
        next(steps)
    except StopIteration as stop:
        name = str(stop.value)
    ids.detached(sink, "run", Opened(name, 1, 0), 0)
    return name


def test_what_many_writes_leave_is_forgotten() -> None:
    ids = OwnIds()
    sinks = [f"write.{number}" for number in range(1_000)]
    names = [chosen(ids, sink) for sink in (*sinks, *sinks, sinks[-1])]
    assert len(set(names)) == len(names)
    size = len(pickle.dumps(ids))
    for number in range(1_000):
        chosen(ids, f"other.{number}")
    assert len(pickle.dumps(ids)) < size * 1.1
