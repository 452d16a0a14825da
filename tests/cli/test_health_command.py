"""`drumlin health`: its exit code, and what it says of servers that are not well."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Run
from rig.brokers.drumlin_server import DrumlinServer


@pytest.fixture
def told() -> dict[str, tuple[int, Any]]:
    """What a server answers at a path, which a test says."""
    return {}


@pytest.fixture
def address(told: dict[str, tuple[int, Any]]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = told[self.path]
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Nothing on the terminal."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(("options", "word"), [([], "healthy\n"), (["--ready"], "ready\n")])
def test_a_server_that_is_well(
    server: DrumlinServer, run: Run, options: list[str], word: str
) -> None:
    result = run("health", "--data", str(server.data), *options)
    assert (result.code, result.out) == (0, word)
    assert run("health", "--data", str(server.data), *options, "--json").code == 0


def test_servers_that_are_not_well(
    address: str, told: dict[str, tuple[int, Any]], run: Run
) -> None:
    failed = {"is_healthy": False, "failed_log_dirs": ["/disk1"]}
    told["/health"] = 503, failed
    result = run("health", "--http", address)
    assert (result.code, result.out) == (
        1,
        "not healthy: these log dirs have failed: /disk1\n",
    )
    result = run("health", "--http", address, "--json")
    assert (result.code, result.json) == (1, failed)

    good, starting = {"is_ready": True, "because": None}, {"is_ready": False, "because": "later"}
    told["/ready"] = 503, {"brokers": {"10": starting, "9": good}}
    result = run("health", "--http", address, "--ready")
    assert (result.code, result.out) == (1, "broker 9: ready\nbroker 10: not ready: later\n")


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (503, {"error": "broker 2 is not ready"}, "broker 2 is not ready"),
        (404, [], "not a Drumlin"),
    ],
)
def test_who_cannot_say(
    address: str, told: dict[str, tuple[int, Any]], run: Run, status: int, body: Any, said: str
) -> None:
    told["/health"] = status, body
    result = run("health", "--http", address)
    assert result.code == 1
    assert said in result.err


def test_no_server(run: Run, tmp_path: Path) -> None:
    result = run("health", "--data", str(tmp_path))
    assert (result.code, result.err) == (1, f"drumlin: no server runs on {tmp_path}\n")


@pytest.mark.parametrize(
    "options", [[], ["--data", "x", "--http", "127.0.0.1:1"], ["--http", "nowhere"]]
)
def test_what_is_asked_wrongly(run: Run, options: list[str]) -> None:
    assert run("health", *options).code == 2
