"""Who may write what: captures of one name, topics of other captures, databases made anew."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

import drumlin.capture
from capture.captured import Captured
from drumlin.capture.errors import CaptureRefused
from drumlin.capture.log import output as outputs
from drumlin.capture.log.names import Names
from drumlin.capture.log.output import Output
from drumlin.capture.running import following
from rig.depth import so_many
from rig.waiting import wait_until


def _one(captured: Captured, *more: str) -> None:
    captured.run(
        "CREATE TABLE item (id int PRIMARY KEY, name text, n int)",
        "INSERT INTO item VALUES (1, 'one')",
        *more,
    )


def _has_one_ended(processes: Iterable[Any]) -> bool:
    return any(each.poll() is not None for each in processes)


@pytest.mark.deep
def test_two_captures_begin_at_the_same_moment(captured: Captured) -> None:
    """One of them goes on, whichever."""
    _one(captured)
    for number in range(so_many(2, 12)):
        captured.start_here()
        first, captured.process = captured.process, None
        time.sleep(0.01 * number)
        captured.start_here()
        second = captured.process
        assert first is not None and second is not None
        both = (first, second)
        wait_until(partial(_has_one_ended, both), "one to end")
        if second.poll() is not None:
            captured.process = first
        captured.run(f"UPDATE item SET n = {number}")
        captured.await_all()
        captured.check_equal("item")
        assert captured.stop() == 0
        drumlin.capture.remove(captured.url, captured.broker, name=captured.name)


def test_a_capture_that_only_the_broker_has_fenced_goes_on(captured: Captured) -> None:
    """A transaction that was open for too long is aborted by the broker, which fences it so."""
    _one(captured)
    captured.start_here()
    captured.await_all()
    captured.client.transaction(f"drumlin.capture.{captured.name}").abort()
    captured.run("UPDATE item SET n = 2")
    captured.await_all()
    captured.check_equal("item")
    assert len(captured.records("item")) == 2
    assert "trying again" in captured.said()


def test_an_idle_capture_ends_as_another_one_has_begun(
    captured: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if nothing else tells it: it commits nothing, and its stream goes on."""
    monkeypatch.setattr(following, "LOOK_S", 0.1)
    _one(captured)
    captured.start_here(heartbeat_ms=3_600_000)
    captured.await_all()
    names = Names(captured.name)
    position = outputs.read_position(captured.client, names)
    assert position is not None
    Output(captured.client, names).commit(replace(position, run="another"))
    assert captured.ended() == 1
    assert "another capture of this name has begun meanwhile" in captured.said()


def test_a_capture_that_was_removed_meanwhile_ends(captured: Captured) -> None:
    _one(captured)
    captured.start_here()
    captured.await_all()
    captured.client.delete_topic(f"drumlin-capture.{captured.name}")
    captured.run(
        f"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots"
        f" WHERE slot_name = 'drumlin_{captured.name}'"
    )
    assert captured.ended() == 1
    assert "was removed meanwhile" in captured.said()


def test_two_tables_of_one_topic(captured: Captured) -> None:
    captured.run(
        'CREATE SCHEMA "a.b"',
        "CREATE SCHEMA a",
        'CREATE TABLE "a.b".c (id int PRIMARY KEY)',
        'CREATE TABLE a."b.c" (id int PRIMARY KEY)',
    )
    captured.start_here()
    assert captured.ended() == 1
    assert 'table "a"."b.c" and table "a.b"."c" would both have the topic' in captured.said()
    captured.run('DROP TABLE a."b.c"', 'CREATE TABLE "a.b"."C" (id int PRIMARY KEY)')
    captured.run('INSERT INTO "a.b".c VALUES (1)', 'INSERT INTO "a.b"."C" VALUES (2)')
    captured.start_here()
    captured.await_all()
    assert captured.state("a.b.c") == {'{"id":1}': '{"id":1}'}
    assert captured.state("a.b.C") == {'{"id":2}': '{"id":2}'}


def test_a_topic_of_another_capture(captured: Captured) -> None:
    """Its rows would be taken for rows that are gone."""
    _one(captured)
    captured.start_here()
    captured.await_all()
    with pytest.raises(CaptureRefused, match=f"is written by capture {captured.name}"):
        drumlin.capture.postgres(
            captured.url, captured.broker, name=f"{captured.name}_b", prefix=captured.prefix
        )
    assert captured.state("item")


def test_a_table_that_was_made_anew_without_a_key(
    captured: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream tells nothing of that: the new one is in no publication."""
    monkeypatch.setattr(following, "LOOK_S", 0.1)
    _one(captured)
    captured.start_here()
    captured.await_all()
    captured.run("DROP TABLE item", "CREATE TABLE item (id int)")
    assert captured.ended() == 1
    assert "table public.item was dropped and made anew" in captured.said()
    assert "table public.item has no key" in captured.said()
    captured.start_here()
    assert captured.ended() == 1
    drumlin.capture.remove(captured.url, captured.broker, name=captured.name)
    captured.run("DROP TABLE item")
    _one(captured)
    captured.start_here()
    captured.await_all()
    captured.check_equal("item")


def test_a_topic_that_somebody_else_has_written_to(captured: Captured) -> None:
    _one(captured, "ALTER TABLE item ALTER name SET STORAGE EXTERNAL")
    captured.run("UPDATE item SET name = repeat('x', 9000)")
    captured.start_here()
    captured.await_all()
    with captured.client.writer(captured.topic("item")) as writer:
        writer.send("no JSON", key='{"id":1}')
    captured.run("UPDATE item SET n = 2")
    assert captured.ended() == 1
    assert "somebody else has written to this topic" in captured.said().splitlines()[-1]
    with captured.client.writer(captured.topic("item")) as writer:
        writer.send(b"\xff", key=b"\xff")
    captured.start_here()
    assert captured.ended() == 1
    assert "no record of a capture" in captured.said().splitlines()[-1]


def test_keys_that_are_large(captured: Captured) -> None:
    captured.run("CREATE TABLE item (k text PRIMARY KEY, name text, n int)")
    captured.run("INSERT INTO item VALUES (repeat('x', 150000), 'a', 1)")
    captured.start_here()
    captured.await_all()
    captured.run(
        "UPDATE item SET n = 2",
        "UPDATE item SET name = repeat('y', 9000)",
        "UPDATE item SET k = k || 'z'",
        "INSERT INTO item VALUES (repeat('x', 100000), 'b', 1)",
        "DELETE FROM item WHERE n = 1",
    )
    captured.await_all()
    captured.check_equal("item")


def test_a_long_truncation_does_not_look_dead(
    captured: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One message of the stream, and tombstones for longer than the server waits."""
    _one(captured, "INSERT INTO item SELECT each FROM generate_series(2, 400) each")
    captured.run("ALTER ROLE admin SET wal_sender_timeout = '2s'")
    monkeypatch.setattr(following, "_SILENT_S", 0.2)
    try:
        captured.start_here(on_truncate="tombstones")
        captured.await_all()
        taken = Output.send

        def slowly(*arguments: object) -> None:
            time.sleep(0.01)
            taken(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(Output, "send", slowly)
        captured.run("TRUNCATE item")
        captured.await_all()
    finally:
        captured.run("ALTER ROLE admin RESET wal_sender_timeout")
    assert not captured.state("item")
    assert "trying again" not in captured.said()
