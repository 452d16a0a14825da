"""Whether a server of several brokers is well while one of them starts, or starts again."""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import pytest

from drumlin.broker.http.message import Request
from drumlin.broker.http.server import answer
from drumlin.broker.machine.operator import Operator
from drumlin.metadata.shared.channel import Unanswered

SAID = {
    "/health": {"is_healthy": True, "failed_log_dirs": []},
    "/ready": {"is_ready": True, "because": None},
}
STARTING = {
    "/health": SAID["/health"],
    "/ready": {"is_ready": False, "because": "it is starting or stopping"},
}


class Channel:
    """To a broker that is well, or ends while it is asked."""

    def __init__(self, ends: bool) -> None:
        self._ends = ends

    async def ask(self, _: Any, body: list[Any]) -> list[Any]:
        if self._ends:
            raise Unanswered
        return [200, json.dumps(SAID[body[1]])]


async def said(path: str, **channels: Channel | None) -> tuple[HTTPStatus, Any]:
    config: Any = SimpleNamespace(log_dirs=["/none"])
    workers: Any = {name: SimpleNamespace(channel=each) for name, each in channels.items()}
    operator = Operator(config, workers, authority=SimpleNamespace())  # type: ignore[arg-type]
    response = await answer(operator.looking, Request("GET", path))
    return response.status, json.loads(response.body)["brokers"]


@pytest.mark.parametrize("path", ["/health", "/ready"])
def test_a_broker_that_starts_is_no_reason_to_restart_all(path: str) -> None:
    async def run() -> None:
        well, ends = Channel(ends=False), Channel(ends=True)
        assert await said(path, one=well) == (200, {"one": SAID[path]})
        wanted = 200 if path == "/health" else 503
        told = {"one": SAID[path], "two": STARTING[path], "three": STARTING[path]}
        assert await said(path, one=well, two=None, three=ends) == (wanted, told)
        assert await said(path) == (wanted, {})

    asyncio.run(run())
