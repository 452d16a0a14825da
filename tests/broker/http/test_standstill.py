"""The moment at which all brokers of a machine stand still: together, or not at all."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from drumlin.broker.http import standstill
from drumlin.broker.http.standstill import at_standstill, listen_for_brokers, stand_still


def test_all_stand_still_while_somebody_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standstill, "_ALL_S", 60.0)  # however busy the machine is
    monkeypatch.setattr(standstill, "_PATIENCE_S", 60.0)
    gone: list[bool] = []

    def broker() -> None:
        gone.append(stand_still(tmp_path))

    with listen_for_brokers(tmp_path, 3) as sock, ThreadPoolExecutor(3) as pool:
        for _ in range(3):
            pool.submit(broker)
        assert at_standstill(sock, 3, lambda: list(gone)) == []  # nobody had gone on
    assert gone == [True] * 3


def test_one_that_does_not_come_keeps_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standstill, "_ALL_S", 0.05)
    with listen_for_brokers(tmp_path, 2) as sock, ThreadPoolExecutor(1) as pool:
        waits = pool.submit(stand_still, tmp_path)
        assert at_standstill(sock, 2, lambda: "seen") is None
        assert waits.result() is False


def test_a_broker_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not stand_still(tmp_path)  # nobody listens
    monkeypatch.setattr(standstill, "_PATIENCE_S", 0.05)
    with listen_for_brokers(tmp_path, 1):
        assert not stand_still(tmp_path)
