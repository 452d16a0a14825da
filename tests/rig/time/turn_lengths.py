"""Turns of another length than a broker's, so that tests do not depend on the machine's speed."""

from __future__ import annotations

import math

import pytest

from drumlin import turns

_FOR_EVER_S = 3600.0


def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """What begins is done in its first turn, however slow the machine is."""
    monkeypatch.setattr(turns, "TURN_S", _FOR_EVER_S)
    monkeypatch.setattr(turns, "_LATE_S", _FOR_EVER_S)
    monkeypatch.setattr(turns._turn, "ends_at", math.inf)


def single_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others have their turn wherever this thread's loop can give way, however fast it is."""
    turns_of(monkeypatch, 0)


def turns_of(monkeypatch: pytest.MonkeyPatch, length_s: float) -> None:
    """Turns of this length. What began in another one gives way as soon as it can."""
    monkeypatch.setattr(turns, "TURN_S", length_s)
    monkeypatch.setattr(turns._turn, "ends_at", -math.inf)
