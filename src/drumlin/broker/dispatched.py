"""A request that has been started: its answer, now or later."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Dispatched:
    """`parts` is None for a request that is not answered (produce with acks=0)."""

    parts: list[Any] | None = None
    waiting: Awaitable[list[Any] | None] | None = None
    lets_pass: bool = False  # the next request may start while this one waits
