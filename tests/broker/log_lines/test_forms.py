"""Lines of the log: one a line, whatever is logged, and as JSON an object."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from drumlin.broker.log_lines.forms import AUDIT_FIELDS, FORM_KEY, Form, formatter
from drumlin.cli.practice.member import _text_of
from drumlin.cli.server import LogFormat, server
from rig.brokers.drumlin_server import DrumlinServer, server_command
from rig.brokers.machine_server import MachineServer
from rig.data.raw import Closed
from rig.waiting import wait_until


def record(text: str, *args: object, **more: Any) -> logging.LogRecord:
    logger = logging.getLogger("drumlin.storage.recovery")
    made = logger.makeRecord(
        logger.name, logging.WARNING, "file.py", 7, text, args, more.pop("exc_info", None)
    )
    made.__dict__.update(more)
    return made


def line(made: logging.LogRecord, process: str = "") -> dict[str, Any]:
    text = formatter(Form.JSON, process).format(made)
    assert len(text.splitlines()) == 1
    text.encode("ascii")
    read: dict[str, Any] = json.loads(text)
    return read


def test_a_line_has_time_level_logger_and_message() -> None:
    made = record("%s is gone:\n%r", "a\nb", "\ud800\u2028")
    told = line(made)
    assert told == {
        "time": told["time"],
        "level": "WARN",
        "logger": "drumlin.storage.recovery",
        "message": "a\nb is gone:\n'\\ud800\\u2028'",
        "thread": "MainThread",
    }
    when = datetime.fromisoformat(told["time"])
    assert when.tzinfo == UTC
    assert abs(when.timestamp() - made.created) < 0.002
    assert line(made, "broker 2")["process"] == "broker 2"


def test_a_name_in_a_line_of_text_begins_no_other_line() -> None:
    made = record("the session of User:%s is over", "ä\n2026 ERROR x\r\x1b[2J\0\u202e\u2028\ud800")
    told = formatter(Form.TEXT, "").format(made)
    assert told.endswith(r"User:ä\n2026 ERROR x\r\x1b[2J\x00\u202e\u2028\ud800 is over")
    try:
        raise ValueError
    except ValueError:
        told = formatter(Form.TEXT, "").format(record("no", exc_info=sys.exc_info()))
    assert told.splitlines()[-1] == "ValueError"


def test_an_exception_is_one_text() -> None:
    try:
        raise ValueError("no\nnumber")
    except ValueError:
        told = line(record("failed", exc_info=sys.exc_info()))
    assert told["message"] == "failed"
    assert told["exception"].startswith("Traceback (most recent call last):\n")
    assert told["exception"].endswith("ValueError: no\nnumber")


def test_a_task_of_the_event_loop_is_named() -> None:
    async def log() -> dict[str, Any]:
        return line(record("in a task"))

    async def run() -> dict[str, Any]:
        return await asyncio.create_task(log(), name="flush")

    assert asyncio.run(run())["task"] == "flush"


def test_an_event_of_the_audit_log_stays_structured() -> None:
    fields = {"event": "denied", "principal": "User:bob", "rule": None}
    told = line(record("%s", json.dumps(fields), **{AUDIT_FIELDS: fields}))
    assert (told["message"], told["audit"]) == ("denied", fields)


def test_what_is_very_long_is_cut() -> None:
    told = line(record("%s", "x" * 100_000))
    assert told["message"].endswith("x… (68000 characters more)")


def test_halves_of_surrogate_pairs_are_no_json() -> None:
    """Python reads them, but the readers of Rust and Go refuse the line."""
    name = os.fsdecode(b"a\xff\xf0\x9f\xa5\x81")
    fields = {"event": "denied", "client_id": name}
    for made in (record("%s", name), record("%s", "", **{AUDIT_FIELDS: fields})):
        text = formatter(Form.JSON, "").format(made)
        assert not re.search(r"(?<!\\)\\ud[c-f]..(?<!\\ud83e\\udd41)", text)
        assert "a\\udcff\U0001f941" in str(json.loads(text)).replace("\\\\", "\\")


def test_a_line_whose_arguments_do_not_fit_is_told_all_the_same() -> None:
    told = line(record("%d of %s", "many"))
    assert told["message"].startswith("%d of %s (its arguments cannot be shown: TypeError: ")


def test_what_python_ignores_is_a_line() -> None:
    program = """
import sys
from drumlin.broker.log_lines.forms import Form
from drumlin.broker.start.process_setup import prepare_process
prepare_process("INFO", Form.JSON)
class Odd:
    def __del__(self):
        raise ValueError("no\\nnumber")
Odd()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    (told,) = [json.loads(each) for each in done.stderr.splitlines()]
    assert "Odd.__del__" in told["message"]
    assert told["exception"].endswith("ValueError: no\nnumber")


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_reason_of_a_failed_start_is_found_in_either_form(form: str) -> None:
    made = record("the log dir is locked")
    said = (
        formatter(Form.JSON, "").format(made) if form == "json" else "drumlin server: " + made.msg
    )
    assert _text_of(said) == "the log dir is locked"


def read(server: DrumlinServer) -> list[dict[str, Any]]:
    """All lines of a server that is ready; the one that says so is no line of the log."""
    ready, lines = "drumlin is ready on", server.said().splitlines()
    return [json.loads(each) for each in lines if each and not each.startswith(ready)]


@pytest.mark.deep
def test_every_line_of_a_server_is_an_object(tmp_path: Path) -> None:
    settings = {"drumlin.logging.format": "json", "log.message.format.version": "3.0"}
    server = DrumlinServer(tmp_path, settings)
    server.start()
    try:
        with server.connect() as client, pytest.raises(Closed):
            client.send_frame(b"\x7f\xff\x00\x00no request")
            client.receive_frame()
        wait_until(
            lambda: any(each["message"].startswith("closed ") for each in read(server)),
            "the line about the connection",
        )
    finally:
        server.terminate()
    told = read(server)
    assert {"time", "level", "logger", "message", "thread"} <= {*told[0]}
    assert any("without effect" in each["message"] for each in told)
    assert told[-1]["message"] == "stopped cleanly"


@pytest.mark.deep
def test_several_brokers_are_told_apart(tmp_path: Path) -> None:
    server = MachineServer(tmp_path, {"drumlin.logging.format": "json"})
    server.start_brokers(2)
    server.terminate()
    assert {each["process"] for each in read(server)} >= {"broker 1", "broker 2"}


@pytest.mark.parametrize("way", ["option", "variable", "assignment"])
def test_a_configuration_that_is_not_there_is_told_in_the_form_asked_for(
    way: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if way == "variable":
        monkeypatch.setenv("DRUMLIN_LOGGING_FORMAT", "json")
    assignments = [f"{FORM_KEY}=json"] if way == "assignment" else None
    log_format = LogFormat.JSON if way == "option" else None
    assert server(["/none.properties"], assignments=assignments, log_format=log_format) == 1
    told = json.loads(capsys.readouterr().err)
    assert told["level"] == "FATAL" and "/none.properties" in told["message"]


@pytest.mark.deep
@pytest.mark.parametrize(
    "setting", [{"log.dirs": "/proc/none"}, {"no.such=key": "\n"}, {"port": "x"}]
)
def test_a_start_that_fails_says_so_in_the_same_form(
    tmp_path: Path, setting: Mapping[str, str]
) -> None:
    command = [*server_command(tmp_path / "data", 0, setting), "--log-format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    told = [json.loads(each) for each in done.stderr.splitlines()]
    assert (done.returncode, told[-1]["level"]) == (1, "FATAL")
