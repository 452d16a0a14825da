"""A capture that waits, and the limit of the WAL that the server keeps for it meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import drumlin.capture
import drumlin.client.client as drumlin_client
from capture.captured import Captured
from drumlin.capture.errors import CaptureRefused
from drumlin.capture.log.output import Output
from drumlin.capture.log.position import Definition, Position
from drumlin.capture.running import following, snapshot_run, supervised
from drumlin.client.transactions.errors import ProducerFenced, TransactionAborted, TransactionError
from rig.brokers.drumlin_server import DrumlinServer, running_server
from rig.waiting import wait_until

#: In a transaction, whose commit writes it at once.
_MORE_WAL = "SELECT pg_logical_emit_message(true, 'test', repeat('x', 2000000))"
_LIMIT = 1_500_000


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "LOOK_S", 0.1)
    monkeypatch.setattr(supervised, "_FENCED_S", 0.1)


def _item(captured: Captured) -> None:
    captured.run(
        "CREATE TABLE item (id int PRIMARY KEY, name text)",
        "INSERT INTO item SELECT i, 'item ' || i FROM generate_series(1, 50) i",
    )


def _has_slot(captured: Captured) -> bool:
    name = f"drumlin_{captured.name}"
    return bool(captured.rows(f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{name}'"))


def _await_pause(captured: Captured) -> None:
    wait_until(lambda: "paused, until" in captured.said(), "the pause")
    wait_until(lambda: not captured.status().is_running, "the end of the stream")


def test_a_capture_that_is_paused(captured: Captured) -> None:
    _item(captured)
    captured.start_here()
    captured.await_all()
    drumlin.capture.pause(captured.broker, name=captured.name)
    _await_pause(captured)
    before = captured.records("item")
    captured.run("UPDATE item SET name = 'later' WHERE id < 10", _MORE_WAL)
    time.sleep(0.3)
    assert captured.stop() == 0
    told = captured.ask_log("pause")  # once more
    assert told.returncode == 0 and f"capture {captured.name} is paused" in told.stdout
    captured.start_here()
    wait_until(lambda: captured.said().count("paused, until") == 2, "the pause")
    status = captured.status()
    assert status.phase == "paused" and not status.is_running
    assert status.kept_bytes is not None and status.kept_bytes > 2_000_000
    assert captured.records("item") == before
    drumlin.capture.resume(captured.broker, name=captured.name)
    captured.await_all()
    captured.check_equal("item")
    assert len(captured.records("item")) == 50 + 9
    assert captured.status().phase == "stream"
    with pytest.raises(CaptureRefused, match="there is no capture nobody"):
        drumlin.capture.pause(captured.broker, name="nobody")


def test_commands_do_not_alarm(captured: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """They fence the capture, which learns of it at its next commit: no other one has started."""
    _item(captured)
    captured.start_here()
    captured.await_all()
    monkeypatch.setattr(following, "LOOK_S", 3600)
    drumlin.capture.reread(captured.broker, tables=["*"], name=captured.name)
    captured.run("UPDATE item SET name = 'read again' WHERE id < 10")
    wait_until(lambda: "rows read into" in captured.said(), "the table")
    drumlin.capture.pause(captured.broker, name=captured.name)
    monkeypatch.setattr(following, "LOOK_S", 0.1)
    captured.run("UPDATE item SET name = 'paused' WHERE id < 10")
    _await_pause(captured)
    drumlin.capture.resume(captured.broker, name=captured.name)
    captured.await_all()
    captured.check_equal("item")
    assert "trying again" not in captured.said()


def test_a_paused_capture_that_is_removed(captured: Captured) -> None:
    """It does not begin from the start by itself."""
    _item(captured)
    captured.start_here()
    captured.await_all()
    captured.stop()
    drumlin.capture.pause(captured.broker, name=captured.name)
    captured.start_here()
    _await_pause(captured)
    assert len(drumlin.capture.remove(captured.url, captured.broker, name=captured.name)) == 3
    assert captured.ended() == 1
    assert "was removed meanwhile" in captured.said()
    assert not _has_slot(captured)


@pytest.mark.parametrize("choice", ["stop", pytest.param("drop", marks=pytest.mark.deep)])
def test_too_much_wal_while_it_is_paused(captured: Captured, choice: str) -> None:
    _item(captured)
    captured.start_here(max_wal_bytes=_LIMIT, on_max_wal=choice)
    captured.await_all()
    captured.run("UPDATE item SET name = 'before' WHERE id < 10")
    captured.await_all()
    drumlin.capture.pause(captured.broker, name=captured.name)
    _await_pause(captured)
    captured.run("UPDATE item SET name = 'later' WHERE id < 5", _MORE_WAL)
    assert captured.ended() == 1
    told = captured.said().splitlines()[-1]
    assert f"bytes of WAL for slot drumlin_{captured.name}" in told
    drumlin.capture.resume(captured.broker, name=captured.name)
    captured.start_here(max_wal_bytes=None if choice == "drop" else 100 * _LIMIT)
    assert _has_slot(captured) is (choice == "stop")
    if choice == "drop":
        assert "the slot is dropped" in told
        assert captured.ended() == 1 and "is gone, and with it" in captured.said().splitlines()[-1]
        drumlin.capture.remove(captured.url, captured.broker, name=captured.name)
        captured.start_here()
    captured.await_all()
    captured.check_equal("item")
    assert len(captured.records("item")) == 50 + 9 + 4


def test_too_much_wal_while_it_cannot_write(
    captured: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it follows, the slot is in use; and the position does not go on."""
    _item(captured)
    captured.start_here(max_wal_bytes=_LIMIT, on_max_wal="drop", heartbeat_ms=2**30)
    captured.await_all()
    captured.run(_MORE_WAL)
    assert captured.ended() == 1
    assert "the slot is dropped" in captured.said().splitlines()[-1]
    assert not _has_slot(captured)


def test_too_much_wal_during_the_snapshot(
    captured: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_run, "_COMMIT_BYTES", 1000)
    monkeypatch.setattr(snapshot_run, "LOOK_S", 0.0)
    _item(captured)
    taken = Output.commit
    captured.run("CREATE TABLE zero (id int PRIMARY KEY)")

    def commit(*arguments: object) -> None:
        captured.run(_MORE_WAL)
        taken(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Output, "commit", commit)
    captured.start_here(max_wal_bytes=_LIMIT, on_max_wal="drop")
    assert captured.ended() == 1
    assert "the slot is dropped" in captured.said().splitlines()[-1]
    assert not _has_slot(captured)
    monkeypatch.setattr(Output, "commit", taken)
    captured.start_here()
    captured.await_all()
    captured.check_equal("item")


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[DrumlinServer]:
    with running_server(tmp_path) as server:
        yield server


@pytest.fixture
def own_address(own_server: DrumlinServer) -> str:
    return own_server.address


@pytest.mark.deep
@pytest.mark.parametrize("address", ["own_address"], indirect=True)
def test_too_much_wal_while_the_log_is_away(
    captured: Captured, own_server: DrumlinServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient = partial(drumlin_client.connect, request_timeout_ms=1000)
    monkeypatch.setattr(drumlin_client, "connect", impatient)
    _item(captured)
    captured.start_here(max_wal_bytes=_LIMIT, on_max_wal="drop")
    captured.await_all()
    own_server.kill()
    captured.run("UPDATE item SET name = 'lost'", _MORE_WAL)
    assert captured.ended() == 1
    assert "the slot is dropped" in captured.said().splitlines()[-1]
    assert not _has_slot(captured)
    own_server.start()


@pytest.mark.parametrize("error", [ProducerFenced, TransactionAborted])
def test_a_capture_that_starts_just_then(
    captured: Captured, monkeypatch: pytest.MonkeyPatch, error: type[TransactionError]
) -> None:
    """It fences the transaction of the command, or has only aborted it yet: that is tried again."""
    captured.run("CREATE TABLE item (id int PRIMARY KEY)")
    captured.start_here()
    captured.await_all()
    captured.stop()
    commit, fenced = Output.commit, [error("by the capture", "an-id")]

    def taken(output: Output, position: Position, definition: Definition | None = None) -> None:
        if fenced:
            raise fenced.pop()
        commit(output, position, definition)

    monkeypatch.setattr(Output, "commit", taken)
    drumlin.capture.pause(captured.broker, name=captured.name)
    assert not fenced
    assert captured.status().phase == "paused"
