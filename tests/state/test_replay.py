"""The state at a time is that of whole commits."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

import drumlin
from drumlin.cli import app
from drumlin.client.client import Client
from drumlin.client.places import Milliseconds
from drumlin.state import Processor, StateRefused, work
from drumlin.state.changelog_format import changelog_name

Made = Callable[..., Processor]


def count(client: Client, topic: str, made: Made, keys: list[str]) -> None:
    client.append(
        [{"key": each, "partition": 0, "value": "x"} for each in keys], topic, partition="partition"
    )
    with made(idle_timeout_ms=30_000) as processor:
        left = len(keys)
        for batch in processor:
            processor.state.count_by(batch.column("key"))
            left -= batch.num_rows
            if not left:
                break


def test_a_state_of_the_past(
    client: Client,
    topic: str,
    group: str,
    made: Made,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    begin_ms = time.time_ns() // 1_000_000
    for number, keys in enumerate((["a", "b"], ["a", "c"], ["a"])):
        monkeypatch.setattr(work, "now_ms", lambda number=number: begin_ms + 1_000 * number)
        count(client, topic, made, keys)

    def at(time_ms: int | None) -> tuple[int | None, dict[bytes, bytes]]:
        moment = None if time_ms is None else Milliseconds(begin_ms + time_ms)
        found = drumlin.state.replay(group, "counts", bootstrap=client.bootstrap, at=moment)
        assert dict(found[1].state) == {}
        return found[0].offset, dict(found[0].state)

    assert at(-1) == (None, {})
    assert at(0) == at(999) == (2, {b"a": b"1", b"b": b"1"})
    assert at(1_000) == (4, {b"a": b"2", b"b": b"1", b"c": b"1"})
    assert at(2_000) == at(None) == (5, {b"a": b"3", b"b": b"1", b"c": b"1"})
    capsys.readouterr()
    command = ["state", "dump", group, "counts", "--bootstrap", client.bootstrap]
    assert app.main([*command, "--at", f"@{begin_ms}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {each["key"]: each["value"] for each in map(json.loads, lines)} == {"a": "1", "b": "1"}
    assert app.main([*command, "--at", "end"]) != 0


def test_what_cannot_be_replayed_is_refused(
    client: Client, topic: str, group: str, made: Made
) -> None:
    count(client, topic, made, ["a"])
    now = datetime.now(UTC)
    options = {"bootstrap": client.bootstrap}
    with pytest.raises(TypeError, match="at 7: expected an aware datetime"):
        drumlin.state.replay(group, "counts", at=7, **options)  # type: ignore[arg-type]
    with pytest.raises(drumlin.UnknownTopic):
        drumlin.state.replay(group, "another", at=now, **options)
    client.set_topic_configs(
        changelog_name(group, "counts"), {"message.timestamp.type": "LogAppendTime"}
    )
    with pytest.raises(StateRefused, match="are not their commit times"):
        drumlin.state.replay(group, "counts", at=now, **options)
