"""A server that is secure by one word, and commands on it."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from drumlin.cli import app
from rig.brokers.secure_server import SecureServer


@dataclass(frozen=True)
class Result:
    """What a command has left."""

    code: int
    out: str
    err: str


class Run(Protocol):
    def __call__(self, *arguments: Any, typed: str = "") -> Result: ...


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command line without the leading `drumlin`; `typed` is its standard input."""

    def run(*arguments: Any, typed: str = "") -> Result:
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        capsys.readouterr()
        code = app.main([str(each) for each in arguments])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return Result(code, out, err)

    return run


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureServer]:
    server = SecureServer(tmp_path_factory.mktemp("secure"))
    try:
        server.start()
        yield server
    finally:
        server.close()
    server.check_output()


@pytest.fixture
def here(server: SecureServer, monkeypatch: pytest.MonkeyPatch) -> SecureServer:
    """A server that commands find without being told, as its administrator."""
    monkeypatch.setenv("DRUMLIN_COMMAND_CONFIG", str(server.client_properties))
    return server


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Where a server's data would be."""
    return tmp_path / "data"
