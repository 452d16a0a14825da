"""A broker where groups do not wait for further members, and a client of it in a loop."""

from __future__ import annotations

import asyncio
import gc
import uuid
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from drumlin import aio
from rig.brokers.drumlin_server import DrumlinServer, running_server

#: A test's coroutine, which gets a client, and a topic of three partitions.
Scenario = Callable[[aio.Client, str], Coroutine[Any, Any, None]]


@pytest.fixture(scope="package")
def group_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrumlinServer]:
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with running_server(tmp_path_factory.mktemp("aio"), settings) as server:
        yield server


@pytest.fixture
def run(group_broker: DrumlinServer) -> Callable[[Scenario], None]:
    """Runs a scenario. Nothing may be left of it in the loop, and the loop has no complaints."""
    complaints: list[dict[str, Any]] = []

    async def whole(scenario: Scenario) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, each: complaints.append(each))
        before = asyncio.all_tasks()
        async with aio.connect(group_broker.address) as client:
            topic = f"aio-{uuid.uuid4().hex[:12]}"
            await client.create_topic(topic, 3)
            await scenario(client, topic)
        assert asyncio.all_tasks() == before

    def run_it(scenario: Scenario) -> None:
        asyncio.run(whole(scenario))
        gc.collect()
        assert complaints == []

    return run_it
