"""Whether a broker is well, for programs that look after it."""

from __future__ import annotations

import asyncio
import errno
import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from broker.in_process import running
from broker.metrics.watched import Watched
from drumlin.broker.http.message import Request
from drumlin.broker.start.broker import Broker


@pytest.mark.clients
@pytest.mark.parametrize("path", ["health", "ready"])
def test_a_broker_that_serves_is_well(watched: Watched, path: str) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{watched.port}/{path}", timeout=30) as said:
        assert said.status == 200
        told = json.loads(said.read())
    wanted: dict[str, Any] = {"is_healthy": True, "failed_log_dirs": []}
    assert told == (wanted if path == "health" else {"is_ready": True, "because": None})


async def ask(broker: Broker, path: str) -> tuple[int, Any]:
    response = await broker.endpoints.answer(Request("GET", path))
    return response.status, json.loads(response.body)


def test_a_broker_is_not_ready_that_stops_or_is_not_registered(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path) as broker:
            known = broker.metadata.image.brokers.pop(1)
            because = "it is not registered as alive in the metadata"
            assert await ask(broker, "/ready") == (503, {"is_ready": False, "because": because})
            broker.metadata.image.brokers[1] = known
            assert (await ask(broker, "/ready"))[0] == 200
            broker.server.stop_accepting()
            because = "it is starting or stopping"
            assert await ask(broker, "/ready") == (503, {"is_ready": False, "because": because})
            assert (await ask(broker, "/health"))[0] == 200

    asyncio.run(run())


def test_a_broker_is_ill_when_all_of_its_log_dirs_have_failed(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path / "a", tmp_path / "b") as broker:
            one, other = broker.logs.directories
            one.fail(OSError(errno.EIO, "Input/output error"), "test")
            told = {"is_healthy": True, "failed_log_dirs": [one.path]}
            assert await ask(broker, "/health") == (200, told)
            other.fail(OSError(errno.EIO, "Input/output error"), "test")
            told = {"is_healthy": False, "failed_log_dirs": [one.path, other.path]}
            assert await ask(broker, "/health") == (503, told)

    asyncio.run(run())
