"""Time that passes only where a test says that work was done.

What gives way by the clock gives way at the same steps then, however busy the machine is.
"""

from __future__ import annotations

import time
from types import ModuleType
from typing import Any

import pytest


class WorkedTime:
    """Stands in for the module `time` in `modules`; all but `monotonic` is as ever."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> None:
        self._now_s = 1000.0
        for module in modules:
            monkeypatch.setattr(module, "time", self)

    def monotonic(self) -> float:
        return self._now_s

    def work(self, seconds: float) -> None:
        """Work for so long."""
        self._now_s += seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)
