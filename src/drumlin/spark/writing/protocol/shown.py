"""What people are shown of a sink: its state in a word, and what it has open. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from drumlin.spark.writing.protocol.names import parse_task_id
from drumlin.spark.writing.protocol.state import SinkState


class Described(Protocol):
    """A transaction as its coordinator describes it."""

    @property
    def transactional_id(self) -> str: ...
    @property
    def is_open(self) -> bool: ...
    @property
    def start_ms(self) -> int | None: ...


_Transaction = TypeVar("_Transaction", bound=Described)


def word_of(state: SinkState | None) -> str:
    """The state of the last batch, or that there is none."""
    if state is None or state.batch is None:
        return "forgotten" if state is not None and state.is_forgotten else "undecided"
    return "done" if state.is_done else "decided"


def open_by_sink(described: Iterable[_Transaction]) -> dict[str, list[_Transaction]]:
    """The open transactions of tasks, by sink; the oldest first."""
    found: dict[str, list[_Transaction]] = {}
    for each in sorted(described, key=lambda each: each.start_ms or 0):
        task = parse_task_id(each.transactional_id)
        if task is not None and each.is_open:
            found.setdefault(task.sink, []).append(each)
    return found
