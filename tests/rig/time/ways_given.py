"""Counts how often code gives way, as if each of its turns were over at once."""

from __future__ import annotations

import math
import time
from collections.abc import Generator
from typing import Any, Self

import pytest

from drumlin import turns


class WaysGiven:
    """From when it is made. What gives way does not wait, so that nothing else is needed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.loop = None
        monkeypatch.setattr(turns, "time", self)
        monkeypatch.setattr(turns._turn, "ends_at", -math.inf)
        monkeypatch.setattr(turns, "_line", lambda: self)

    def wait(self) -> Self:
        return self

    def monotonic(self) -> float:
        return math.inf

    def __await__(self) -> Generator[Any, Any, None]:
        self.count += 1
        yield from ()

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)
