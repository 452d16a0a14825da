"""Records and names may be anything: a terminal must not obey them, nor a script be misled."""

from __future__ import annotations

import json
import sys
import uuid

import pytest

import drumlin
from cli.conftest import Run
from drumlin.cli.terminal import output
from rig.brokers.drumlin_server import DrumlinServer

HOSTILE = "\x1b]0;title\x07\x1b[2Jred\x9b31m\x7f\rhid \u202etxt.exe"
OBEYED = {"\x1b", "\x07", "\x9b", "\x7f", "\r", "\u202e"}


@pytest.fixture
def topic(cluster: DrumlinServer, run: Run) -> str:
    """A topic with a record that is hostile in key, value and headers; and one of plain text."""
    name = f"hostile-{uuid.uuid4().hex[:8]}"
    assert run("topics", "create", name, "-p", "1").code == 0
    with drumlin.connect(cluster.address) as client, client.writer(name) as writer:
        writer.send(HOSTILE, key=HOSTILE, headers=[(HOSTILE, HOSTILE)])
        writer.send("tab\tand\nline \u6f22 \U0001f600", key=b"\x9b\xff")
    return name


def on_terminal(monkeypatch: pytest.MonkeyPatch, colour: bool) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm" if colour else "dumb")
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.mark.parametrize("command", ["consume", "snapshot"])
@pytest.mark.parametrize(
    "shown", ["--json", "--format={key} {value} {headers}", "--format={value}"]
)
def test_a_terminal_gets_nothing_that_it_would_obey(
    topic: str, run: Run, monkeypatch: pytest.MonkeyPatch, command: str, shown: str
) -> None:
    on_terminal(monkeypatch, colour=False)
    result = run(command, topic, shown)
    assert result.code == 0
    assert not OBEYED & set(result.out)
    assert "hid " in result.out
    assert "\u6f22 \U0001f600" in result.out
    if shown == "--json":
        assert json.loads(result.out.splitlines()[0])["value"] == HOSTILE
    else:
        assert "tab\tand\nline" in result.out


def test_colours_are_ours(topic: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    on_terminal(monkeypatch, colour=True)
    first = run("consume", topic, "--format", "{key}|{value}", "-n", "1").out
    assert first.startswith("\x1b[36m") and first.count("\x1b") == 2
    assert not {"\x07", "\x9b", "\r"} & set(first)


def test_a_pipe_gets_every_byte(topic: str, run: Run) -> None:
    assert run("consume", topic, "-n", "1").out == f"{HOSTILE}\n"
    assert run("consume", topic, "--format", "{key} {value} ", "-n", "1").out == (
        f"{HOSTILE} {HOSTILE} \n"
    )


def test_names_in_tables_and_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "[/b] a\tb\nforged\tEmpty" + HOSTILE
    output.show_rows([{"group": name, "state": "Empty"}], ("group", "state"), as_json=False)
    (line,) = capsys.readouterr().out.split("\n")[:-1]
    assert line.split("\t")[1:] == ["Empty"]
    output.show_rows([{"group": name}], ("group",), as_json=True)
    out = capsys.readouterr().out
    assert json.loads(out) == [{"group": name}]
    assert not OBEYED & set(out)
    on_terminal(monkeypatch, colour=False)
    output.show_rows([{"group": name}], ("group",), as_json=False, title=name)
    output.note(name)
    shown = capsys.readouterr()
    assert not OBEYED & set(shown.out + shown.err)
    assert "[/b]" in shown.out
