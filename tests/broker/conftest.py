"""One running broker for the tests of its APIs; tests keep apart by the names that they use."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from drumlin.broker.start import chores
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.messages import render

_NUMBERS = itertools.count()

#: Asks the broker: API, version, fields of the request; the answer as plain data.
Ask = Callable[..., Any]


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrumlinServer]:
    directory = tmp_path_factory.mktemp("broker")
    settings = {"offsets.topic.num.partitions": "2", "group.initial.rebalance.delay.ms": "0"}
    server = DrumlinServer(directory, settings)
    server.start()
    try:
        yield server
        server.check_output()
    finally:
        server.close()


@pytest.fixture
def ask(server: DrumlinServer) -> Iterator[Ask]:
    with server.connect() as client:
        yield lambda api, version, **fields: render(client.ask(api, version, **fields))


@pytest.fixture
def topic_name() -> Callable[[str], str]:
    """Names that no other test uses."""
    number = next(_NUMBERS)
    return lambda name="topic": f"{name}-{number}"


@pytest.fixture
def create(ask: Ask, topic_name: Callable[[str], str]) -> Callable[..., str]:
    """Creates a topic and returns its name."""

    def create(name: str = "topic", partitions: int = 1, **configs: str) -> str:
        topic = {
            "name": topic_name(name),
            "num_partitions": partitions,
            "replication_factor": 1,
            "configs": [
                {"name": key.replace("_", "."), "value": value} for key, value in configs.items()
            ],
        }
        (result,) = ask("create_topics", 7, topics=[topic], timeout=10_000)["topics"]
        assert result["error_code"] == "none", result
        return str(topic["name"])

    return create


@pytest.fixture
def frequent_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker in the test's process looks after failed log dirs again and again."""
    monkeypatch.setattr(chores, "_PROBE_MS", 20)
