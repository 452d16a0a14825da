"""What a capture tells of itself: to Prometheus, and to `status`."""

from __future__ import annotations

import urllib.request

import pytest

from capture.captured import Captured
from drumlin.capture.log.position import Position, decode_position
from drumlin.capture.running import following, supervised
from drumlin.capture.running.progress import Phase, Progress
from rig.ports import free_ports
from rig.waiting import wait_until


def test_the_lag_is_how_long_the_topics_have_lacked_a_change() -> None:
    progress = Progress(1000)
    assert progress.lag_s(5000) is None and progress.lag_bytes is None
    progress.began(Phase.STREAM)
    progress.reached(100)
    progress.sampled(100, 50, 2000)
    assert (progress.lag_s(9000), progress.lag_bytes, progress.kept_bytes) == (0.0, 0, 50)
    progress.sampled(150, 70, 3000)
    progress.sampled(180, 80, 4000)
    assert (progress.lag_s(4500), progress.lag_bytes) == (1.5, 80)
    progress.reached(160)
    assert (progress.lag_s(4500), progress.lag_bytes) == (0.5, 20)
    progress.reached(180)
    assert (progress.lag_s(99_000), progress.lag_bytes) == (0.0, 0)
    assert progress.counts().current_ms == 4000


def test_without_a_connection_the_lag_grows() -> None:
    progress = Progress(0)
    progress.began(Phase.STREAM)
    progress.reached(10)
    progress.sampled(10, None, 1000)
    progress.sampled(20, None, 2000)
    progress.began(Phase.WAITING)
    assert progress.lag_s(11_000) == 10.0
    progress.began(Phase.STREAM)
    assert progress.lag_s(12_000) == 11.0
    progress.reached(30)
    assert progress.lag_s(12_000) == 11.0, "nothing tells that it is all"
    progress.sampled(30, None, 13_000)
    assert progress.lag_s(12_000) == 0.0


def test_a_server_that_is_far_ahead_takes_no_memory() -> None:
    progress = Progress(0)
    for number in range(1, 100_000):
        progress.sampled(number, None, number)
    assert len(progress._ahead) <= 513
    assert progress.lag_s(100_000) == pytest.approx(100, rel=0.001)
    progress.reached(100_000)
    assert progress.lag_s(100_000) == 0.0


def test_counts_are_kept_with_the_position() -> None:
    progress = Progress(7)
    progress.wrote(5, 2)
    position = Position("run", 16, 1, 8, progress.counts())
    assert decode_position(position.encode().encode()) == position


def _scraped(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    found = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
    return {name.removeprefix("drumlin_capture_"): float(value) for name, value in found}


def test_prometheus_and_status_tell_the_same(
    captured: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "_SAMPLE_S", 0.05)
    monkeypatch.setattr(following, "LOOK_S", 0.1)
    monkeypatch.setattr(supervised, "_FENCED_S", 0.1)
    captured.run(
        "CREATE TABLE item (id int PRIMARY KEY, n int)",
        "INSERT INTO item SELECT each FROM generate_series(1, 50) each",
    )
    (port,) = free_ports(1)
    captured.start_here(metrics_listener=f"127.0.0.1:{port}")
    captured.await_all()
    captured.run("UPDATE item SET n = 1 WHERE id < 11", "UPDATE item SET n = 2 WHERE id = 1")
    captured.run("UPDATE item SET n = 2; DELETE FROM item WHERE id = 50")
    name = f'{{name="{captured.name}"}}'

    def told() -> dict[str, float]:
        return _scraped(port)

    def phase(found: dict[str, float]) -> list[str]:
        names = [each for each in found if each.startswith("phase") and found[each]]
        return [each.split('phase="')[1].removesuffix('"}') for each in names]

    wait_until(lambda: told()[f"records_total{name}"] == 50 + 10 + 1 + 51, "all records")
    wait_until(lambda: told()[f"lag_bytes{name}"] == 0, "it to be there")
    found = told()
    assert found[f"lag_seconds{name}"] < 5 and found[f"unread_tables{name}"] == 0
    assert f"kept_wal_bytes{name}" in found
    assert found[f"transactions_total{name}"] == 3
    assert phase(found) == ["stream"]
    wait_until(lambda: captured.status().transactions == 3, "the position to tell it")
    status = captured.status()
    assert (status.records, status.restarts) == (112, 0)
    assert status.lag_s is not None and status.lag_s < 5
    captured.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name ="
        " 'drumlin capture' AND datname = current_database()"
    )
    wait_until(lambda: told()[f"restarts_total{name}"] > 0, "a restart")
    assert captured.ask_log("pause").returncode == 0
    wait_until(lambda: phase(told()) == ["paused"], "the pause")
    captured.stop()
    with pytest.raises(OSError, match="refused"):
        told()


def test_an_address_that_cannot_be_listened_on(captured: Captured) -> None:
    for wrong in ("here", "127.0.0.1:70000", "192.0.2.1:9000", ""):
        captured.start_here(metrics_listener=wrong)
        assert captured.ended() == 1
        assert f"metrics cannot be served at {wrong!r}" in captured.said()


def test_a_quiet_table_beside_a_busy_one_keeps_no_wal(captured: Captured) -> None:
    """In its own database, and in another one of the server."""
    captured.run(
        "CREATE TABLE quiet (id int PRIMARY KEY)",
        "INSERT INTO quiet VALUES (1)",
        "CREATE TABLE busy (id int PRIMARY KEY, text text)",
    )
    captured.start_here(tables=["public.quiet"])
    captured.await_all()
    other = Captured(captured.server, captured.server.url(), captured.broker, "elsewhere")
    fill = (
        "INSERT INTO {} SELECT each, repeat(md5(each::text), 20) FROM generate_series(1, 8000) each"
    )
    with other:
        other.run("CREATE TABLE busy (id int PRIMARY KEY, text text)")
        captured.run(fill.format("busy"))
        other.run(fill.format("busy"), "DROP TABLE busy")

    def is_free() -> bool:
        captured.run("CHECKPOINT")  # the server releases WAL where it logs its transactions
        kept_bytes = captured.status().kept_bytes
        return kept_bytes is not None and kept_bytes < 1_000_000

    wait_until(is_free, "the WAL to be released", 60)
    assert len(captured.records("quiet")) == 1
