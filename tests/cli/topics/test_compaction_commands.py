"""`drumlin compaction`, on a broker that runs, on one that does not, and on what is none."""

from __future__ import annotations

import re
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Run
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.compacted_topic import create, produce
from rig.ports import free_ports
from rig.waiting import wait_until

pytestmark = pytest.mark.clients

#: Its topics are cleaned only when it is told to.
SETTINGS = {
    "log.cleaner.backoff.ms": "600000",
    "log.cleaner.min.compaction.lag.ms": "0",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrumlinServer]:
    server = DrumlinServer(
        tmp_path_factory.mktemp("compaction"),
        SETTINGS | {"drumlin.metrics.listener": f"127.0.0.1:{free_ports(1)[0]}"},
    )
    server.start()
    try:
        create(server.address, "plain", cleanup_policy="delete")
        yield server
        server.check_output()
    finally:
        server.close()


@pytest.fixture
def topic(broker: DrumlinServer, request: pytest.FixtureRequest) -> str:
    """A dirty topic of two partitions; all records are in the first.

    It is cleaned on request alone: no ratio is above 1, and a broker that has just started, or
    cleaned something on request, looks for more.
    """
    name = request.node.name
    create(broker.address, name, partitions=2, min_cleanable_dirty_ratio="1")
    produce(broker.address, name)
    return str(name)


@pytest.fixture
def stopped(broker: DrumlinServer, topic: str, tmp_path: Path) -> Path:
    """The data of a broker that was stopped: a dirty topic named after the test, and `plain`."""
    return _copy_of_stopped(broker, tmp_path)


def _copy_of_stopped(broker: DrumlinServer, directory: Path) -> Path:
    broker.stop()
    data = directory / "data"
    shutil.copytree(broker.data, data)
    broker.start()
    return data


def _all_files(directory: Path) -> dict[str, tuple[int, int, bytes]]:
    return {
        str(path): (path.stat().st_size, path.stat().st_mtime_ns, path.read_bytes())
        for path in directory.rglob("*")
        if path.is_file()
    }


# -- a broker that runs ------------------------------------------------------------------------


def test_status_simulate_run(run: Run, broker: DrumlinServer, topic: str) -> None:
    data = str(broker.data)
    before = run("compaction", "status", topic, "--data", data)
    assert before.code == 0
    first, second = before.rows
    assert first[:3] == [topic, "0", "0"]
    assert int(first[3]) > 0
    assert (first[4], first[5:8], first[8]) == ("1.0", ["", "", ""], "dirty")
    assert second[8] == "clean"

    would = run("compaction", "simulate", topic, "--data", data, "--json").json["results"]
    assert [each["partition"] for each in would] == [0, 1]
    assert (would[1]["cleaning"], would[1]["is_failed"]) == (None, False)
    assert run("compaction", "status", topic, "--data", data).out == before.out

    done = run("compaction", "run", topic, "--data", data, "--json").json["results"]
    same = ("bytes_freed", "superseded", "records_read", "records_written", "round_end_offset")
    assert [done[0]["cleaning"][key] for key in same] == [would[0]["cleaning"][key] for key in same]
    assert done[0]["cleaning"]["superseded"] > 1000

    first = run("compaction", "status", topic, "--data", data).rows[0]
    assert (first[3], first[8]) == ("0", "clean")
    assert int(first[2]) == done[0]["cleaning"]["bytes_written"]
    assert int(first[7]) == done[0]["cleaning"]["bytes_freed"]
    again = run("compaction", "run", topic, "--data", data)
    assert again.code == 0
    first_remark, second_remark = (row[-1] for row in again.rows)
    assert re.fullmatch(
        r"all else is clean; \d+ records are in the active segment, which closes when it is full "
        r"\(segment\.bytes=20000\), or with a record 604800000 ms after its first "
        r"\(segment\.ms\), or by --roll",
        first_remark,
    )
    assert second_remark == "it has no records"


def test_the_active_segment_is_closed_on_request(
    run: Run, broker: DrumlinServer, request: pytest.FixtureRequest
) -> None:
    name, data = request.node.name, str(broker.data)
    create(broker.address, name, internal_segment_bytes="1000000", max_compaction_lag_ms="9000000")
    produce(broker.address, name, rounds=3, keys=100)
    closes = "when it is full (segment.bytes=1000000), or 9000000 ms after its first record"
    shown = run("compaction", "status", name, "--data", data)
    assert shown.err == (
        f"{name}-0: all 300 records are in the active segment, which closes {closes} "
        "(max.compaction.lag.ms), or by `drumlin compaction run --roll`\n"
    )
    for command in ("simulate", "run"):
        remark = run("compaction", command, name, "--data", data).rows[0][-1]
        assert remark.startswith(f"300 records are in the active segment, which closes {closes}")

    done = run("compaction", "run", name, "--data", data, "--roll", "--json").json["results"]
    assert done[0]["cleaning"]["records_removed"] == 200
    again = run("compaction", "run", name, "--data", data, "--roll").rows[0]
    assert again[-1] == "all of it is clean"


def test_internal_topics_are_shown_when_asked_for(run: Run, broker: DrumlinServer) -> None:
    committed = ("groups", "reset", "readers", "plain", "--to", "earliest", "--yes")
    assert run(*committed, "-b", broker.address).code == 0  # this makes __consumer_offsets
    where = ("compaction", "status", "--data", str(broker.data))
    assert not any(row[0].startswith("__") for row in run(*where).rows)
    assert any(row[0] == "__consumer_offsets" for row in run(*where, "--internal").rows)
    assert run(*where, "__consumer_offsets").code == 0
    nothing = run(*where, "plain")
    assert (nothing.code, nothing.err) == (1, "drumlin: there is no compacted topic 'plain'\n")


def test_one_partition(run: Run, broker: DrumlinServer, topic: str) -> None:
    where = ("--partition", "1", "--data", str(broker.data))
    assert [row[1] for row in run("compaction", "simulate", topic, *where).rows] == ["1"]
    assert [row[1] for row in run("compaction", "run", topic, *where).rows] == ["1"]


def test_status_over_http(run: Run, broker: DrumlinServer, topic: str) -> None:
    http = ("--http", broker.settings["drumlin.metrics.listener"])

    def is_the_same() -> bool:  # once no cleaning comes in between
        by_socket = run("compaction", "status", "--data", str(broker.data), "--json").json
        by_http = run("compaction", "status", *http, "--json").json
        return by_http["partitions"] == by_socket["partitions"] and by_http["is_enabled"] is True

    wait_until(is_the_same, "both ways to say the same")
    assert [row[0] for row in run("compaction", "status", topic, *http).rows] == [topic, topic]


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (("run", "none"), "there is no topic none"),
        (("run", "plain"), "plain is not compacted: compact is not in its cleanup.policy"),
        (("simulate", "none"), "there is no topic none"),
        (("simulate", "plain"), "plain is not compacted: compact is not in its cleanup.policy"),
        (("run", "plain", "--partition", "5"), "plain has no partition 5 here"),
    ],
)
def test_what_a_broker_refuses(
    run: Run, broker: DrumlinServer, command: tuple[str, ...], error: str
) -> None:
    result = run("compaction", *command, "--data", str(broker.data))
    assert (result.code, result.out, result.err) == (1, "", f"drumlin: {error}\n")


# -- the files of a broker that does not run ---------------------------------------------------


def test_files_say_what_their_broker_said(
    run: Run, broker: DrumlinServer, topic: str, tmp_path: Path
) -> None:
    def ask(command: str, data: Path) -> list[dict[str, Any]]:
        answer = run("compaction", command, topic, "--data", str(data), "--json").json
        return list(answer["results" if command == "simulate" else "partitions"])

    status, would = ask("status", broker.data), ask("simulate", broker.data)
    data = _copy_of_stopped(broker, tmp_path)
    before = _all_files(data)
    assert [{**row, "log_dir": str(broker.data)} for row in ask("status", data)] == status
    assert _without_times(ask("simulate", data)) == _without_times(would)
    assert would[0]["cleaning"]["superseded"] > 1000
    assert _all_files(data) == before


def _without_times(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    words = ("_ms", "seconds", "second")
    return [
        {
            **result,
            "cleaning": {
                key: value
                for key, value in (result["cleaning"] or {}).items()
                if not key.endswith(words)
            },
        }
        for result in results
    ]


def test_directories_that_may_not_be_written(run: Run, stopped: Path, topic: str) -> None:
    for path in (stopped, *stopped.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        result = run("compaction", "simulate", topic, "--data", str(stopped))
        assert (result.code, result.rows[0][0]) == (0, topic)
    finally:
        for path in (stopped, *stopped.rglob("*")):
            path.chmod(0o755)


def test_after_a_crash(run: Run, stopped: Path, topic: str) -> None:
    """What lies after the last whole batch does not count, and stays."""
    (stopped / ".kafka_cleanshutdown").unlink()
    active = max((stopped / f"{topic}-0").glob("*.log"))
    with active.open("ab") as file:
        file.write(b"\x00" * 100)
    before = _all_files(stopped)
    assert run("compaction", "simulate", topic, "--data", str(stopped)).code == 0
    assert run("compaction", "status", topic, "--data", str(stopped)).code == 0
    assert _all_files(stopped) == before


def test_a_log_that_cannot_be_read(run: Run, stopped: Path, topic: str) -> None:
    segment = min((stopped / f"{topic}-0").glob("*.log"))
    content = bytearray(segment.read_bytes())
    content[500] ^= 1
    segment.write_bytes(content)
    result = run("compaction", "simulate", topic, "--data", str(stopped))
    assert (result.code, result.err.splitlines()[-1]) == (1, f"drumlin: failed: {topic}-0")
    assert str(segment) in result.out


def test_a_cleaning_that_a_crash_interrupted(run: Run, stopped: Path, topic: str) -> None:
    (stopped / f"{topic}-0" / "segment-swap").write_text("0\n0 0\n")
    result = run("compaction", "status", topic, "--data", str(stopped))
    assert "is completed by the next start" in result.rows[0][-1]
    result = run("compaction", "simulate", topic, "--data", str(stopped))
    assert result.code == 1


def test_a_cleaning_needs_a_broker(run: Run, stopped: Path, topic: str) -> None:
    result = run("compaction", "run", topic, "--data", str(stopped))
    assert (result.code, result.out) == (1, "")
    assert result.err == f"drumlin: no broker runs on {stopped}, and a cleaning needs one\n"


# -- what is no broker -------------------------------------------------------------------------


def test_a_directory_that_is_none_of_a_broker(run: Run, tmp_path: Path) -> None:
    result = run("compaction", "status", "--data", str(tmp_path / "none"))
    assert (result.code, result.err) == (1, f"drumlin: {tmp_path / 'none'}: no such directory\n")
    result = run("compaction", "status", "--data", str(tmp_path))
    assert result.code == 1
    assert "give the first of a broker's log.dirs" in result.err


def test_a_broker_that_cannot_be_asked(run: Run, broker: DrumlinServer) -> None:
    path = broker.data / "drumlin-admin.sock"
    hidden = path.rename(broker.data / "hidden.sock")
    try:
        result = run("compaction", "status", "--data", str(broker.data))
    finally:
        hidden.rename(path)
    assert result.code == 1
    assert f"a server runs on {broker.data}" in result.err


def test_http_that_is_no_broker(run: Run) -> None:
    for given in ("nonsense", "host:", ":1", "host:70000"):
        result = run("compaction", "status", "--http", given)
        assert (result.code, "is no address" in result.err) == (1, True)
    result = run("compaction", "status", "--http", f"127.0.0.1:{free_ports(1)[0]}")
    assert (result.code, "Connection refused" in result.err) == (1, True)


@pytest.mark.parametrize(
    "answer", [b"", b"junk\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n[]", b"\xff" * 9]
)
def test_answers_that_are_junk(run: Run, answer: bytes) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:

        def serve() -> None:
            accepted, _ = listening.accept()
            with closing(accepted):
                accepted.recv(65536)
                accepted.sendall(answer)

        server = threading.Thread(target=serve)
        server.start()
        result = run("compaction", "status", "--http", f"127.0.0.1:{listening.getsockname()[1]}")
        server.join()
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("drumlin: 127.0.0.1:")


def test_one_broker_is_asked(run: Run, broker: DrumlinServer) -> None:
    assert run("compaction", "status").code == 2
    assert run("compaction", "status", "--data", ".", "--http", "127.0.0.1:1").code == 2
    assert run("compaction", "run", "topic").code == 2
