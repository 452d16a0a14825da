"""Runs commands in this process: quick, and through the same `main` as a user's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pytest

from drumlin.cli import app
from rig.brokers.drumlin_server import DrumlinServer
from rig.brokers.old_records import KEPT


@dataclass(frozen=True)
class Result:
    """What a command has left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def rows(self) -> list[list[str]]:
        """The fields of tab-separated lines."""
        return [line.split("\t") for line in self.out.splitlines()]


class Run(Protocol):
    def __call__(self, *arguments: str) -> Result: ...


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command line without the leading `drumlin`."""

    def run(*arguments: str) -> Result:
        capsys.readouterr()
        code = app.main(arguments)
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return Result(code, out, err)

    return run


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrumlinServer]:
    settings = KEPT | {"num.partitions": "2", "group.initial.rebalance.delay.ms": "0"}
    server = DrumlinServer(tmp_path_factory.mktemp("server"), settings)
    try:
        server.start()
        yield server
        server.check_output()
    finally:
        server.close()


@pytest.fixture
def cluster(server: DrumlinServer, monkeypatch: pytest.MonkeyPatch) -> DrumlinServer:
    """A broker that commands find without being told."""
    monkeypatch.setenv("DRUMLIN_BOOTSTRAP", server.address)
    return server
