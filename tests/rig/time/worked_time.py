"""Time that passes only where a test says that work was done.

What gives way by the clock gives way at the same steps then, however busy the machine is.
"""

from __future__ import annotations

import math
import time
from types import ModuleType
from typing import Any

import pytest

from drumlin import turns


class WorkedTime:
    """Stands in for the module `time` in `modules`; all but `monotonic` is as ever."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> None:
        self._now_s = 1000.0
        for module in modules:
            monkeypatch.setattr(module, "time", self)
        # Turns that have begun by another clock are over, and those of this one will be.
        monkeypatch.setattr(turns._turn, "ends_at", -math.inf)

    def monotonic(self) -> float:
        return self._now_s

    def work(self, seconds: float) -> None:
        """Work for so long."""
        self._now_s += seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)
