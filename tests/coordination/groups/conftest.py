"""Work that gives way, as tests of large groups want it."""

from __future__ import annotations

import threading

import pytest

from coordination.groups.classic.classic_members import gated, single_step


@pytest.fixture
def every_step_is_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    single_step(monkeypatch)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """What the threads that encode wait for."""
    return gated(monkeypatch)
