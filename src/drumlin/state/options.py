"""The options of a processor, and their checks. The meanings are in `factory.processor`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Literal

from drumlin.client import arguments
from drumlin.client.arguments import Decode
from drumlin.state.topics import NewPartitions

OutputDelivery = Literal["exactly_once", "at_least_once"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorOptions:
    """All options of a processor that belong to its process, except where it connects.

    Raises:
        TypeError, ValueError: an option is invalid. The consumer checks its own.
    """

    start: Literal["earliest", "latest"]
    commit_interval_ms: int
    idle_timeout_ms: int | None
    tick_interval_ms: int | None
    decode: Decode | None
    headers: bool
    group_instance_id: str | None
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    transaction_timeout_ms: int
    output: OutputDelivery
    folder: str | os.PathLike[str] | None
    standbys: int
    new_partitions: NewPartitions
    dead_letters: str | None

    def __post_init__(self) -> None:
        arguments.one_of("start", self.start, ("earliest", "latest"))
        arguments.one_of("new_partitions", self.new_partitions, ("refuse", "follow"))
        arguments.one_of("output", self.output, ("exactly_once", "at_least_once"))
        for name in ("commit_interval_ms", "transaction_timeout_ms"):
            arguments.whole_number(name, getattr(self, name), 1, 2**31 - 1)
        arguments.numbers_at_least({"idle_timeout_ms": self.idle_timeout_ms}, 0)
        if self.tick_interval_ms is not None:
            arguments.whole_number("tick_interval_ms", self.tick_interval_ms, 1, 2**31 - 1)
        for name in ("dead_letters", "group_instance_id"):
            if getattr(self, name) is not None:
                arguments.text(name, getattr(self, name))
        if self.folder is not None and not isinstance(self.folder, str | os.PathLike):
            raise TypeError(f"folder {arguments.shown(self.folder)}: expected a path")
        arguments.whole_number("standbys", self.standbys, 0, 100)

    @property
    def has_headers(self) -> bool:
        """Whether headers are read: dead letters keep them."""
        return self.headers or self.dead_letters is not None

    @property
    def of_consumer(self) -> dict[str, Any]:
        """The options of the consumer that have the same names."""
        return {
            "group_instance_id": self.group_instance_id,
            "session_timeout_ms": self.session_timeout_ms,
            "heartbeat_interval_ms": self.heartbeat_interval_ms,
            "max_poll_interval_ms": self.max_poll_interval_ms,
        }
