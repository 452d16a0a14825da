"""A broker with many partitions and groups, whose metrics are fetched."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.brokers import Broker
from bench.harness import Options
from bench.load import batch_of
from bench.offset_commits import find_coordinator
from rig.brokers.drumlin_server import DrumlinServer
from rig.ports import free_ports
from rig.waiting import wait_until

_PARTITIONS: Final = 5000
_GROUPS: Final = 500
_OF_TOPIC: Final = 10
_AT_ONCE: Final = 50  # topics in one request
_CREATE_TOPICS, _METADATA, _PRODUCE, _OFFSET_COMMIT = 7, 12, 13, 8
_RECORD: Final = 300
#: Prometheus's interval that docs/metrics.md recommends.
_INTERVAL_S: Final = 15.0
_SETTINGS: Final = {"offsets.topic.num.partitions": "5"}


class _Server(DrumlinServer):
    """One that another module than `drumlin` starts."""

    def __init__(self, directory: Path, settings: dict[str, str], module: tuple[str, ...]) -> None:
        super().__init__(directory, _SETTINGS | settings)
        self._module = module

    def command(self) -> list[str]:
        return [sys.executable, "-m", *self._module, *super().command()[3:]]


class Metered(NamedTuple):
    """A broker, and the port of its metrics."""

    broker: Broker
    port: int

    def scrape(self) -> bytes:
        """Fetch its metrics as Prometheus does."""
        url = f"http://127.0.0.1:{self.port}/metrics"
        with urllib.request.urlopen(url, timeout=60) as page:
            content: bytes = page.read()
        return content


@contextlib.contextmanager
def unmetered(name: str, options: Options, *module: str) -> Iterator[Broker]:
    """A crowded broker without metrics, started by a module of Python with its arguments."""
    with _running(name, options, {}, module) as broker:
        yield broker


@contextlib.contextmanager
def metered(name: str, options: Options, *module: str) -> Iterator[Metered]:
    """A crowded broker with metrics, which nobody fetches by himself."""
    (port,) = free_ports(1)
    settings = {"drumlin.metrics.listener": f"127.0.0.1:{port}"}
    with _running(name, options, settings, module) as broker:
        yield Metered(broker, port)


@contextlib.contextmanager
def _running(
    name: str, options: Options, settings: dict[str, str], module: tuple[str, ...]
) -> Iterator[Broker]:
    server = _Server(Path(tempfile.mkdtemp(dir=options.directory)), settings, module)
    with contextlib.closing(server):
        server.start()
        broker = Broker(name, server)
        _fill(broker, options.scale)
        yield broker


def interval_s(options: Options) -> float:
    """The time between two scrapes."""
    return _INTERVAL_S * options.scale


@contextlib.contextmanager
def scraped(metered: Metered, options: Options) -> Iterator[None]:
    """Fetch its metrics again and again, until the end of the block."""
    is_over = threading.Event()

    def scrape() -> None:
        while not is_over.wait(interval_s(options)):
            metered.scrape()

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _fill(broker: Broker, scale: float) -> None:
    """A record in each partition, and a group for each of the first topics, one record behind."""
    count = max(1, round(_PARTITIONS * scale / _OF_TOPIC))
    topics = [f"crowd-{number}" for number in range(count)]
    for first in range(0, count, _AT_ONCE):
        some = topics[first : first + _AT_ONCE]
        new = [{"name": e, "num_partitions": _OF_TOPIC, "replication_factor": 1} for e in some]
        broker.ask("create_topics", _CREATE_TOPICS, timeout=60_000, topics=new)
        _write(broker, some)
    groups = max(1, round(_GROUPS * scale))
    find_coordinator(broker, "crowd")
    for number in range(groups):
        _commit(broker, f"crowd-{number}", topics[number % count])


def _write(broker: Broker, topics: list[str]) -> None:
    known = broker.ask("metadata", _METADATA, topics=[{"name": each} for each in topics])
    batch = batch_of(_RECORD)
    data = [{"index": each, "records": batch} for each in range(_OF_TOPIC)]
    wanted = [{"topic_id": each.topic_id, "partition_data": data} for each in known.topics]

    def write() -> bool:
        answer = broker.ask("produce", _PRODUCE, acks=1, timeout=60_000, topic_data=wanted)
        return all(
            each.error_code == 0 for topic in answer.responses for each in topic.partition_responses
        )

    wait_until(write, f"{broker.name} to lead {topics[0]}", 60)


def _commit(broker: Broker, group_id: str, topic: str) -> None:
    partitions: list[dict[str, Any]] = [
        {"partition_index": each, "committed_offset": 0, "committed_leader_epoch": -1}
        for each in range(_OF_TOPIC)
    ]

    def commit() -> bool:
        answer = broker.ask(
            "offset_commit",
            _OFFSET_COMMIT,
            group_id=group_id,
            generation_id_or_member_epoch=-1,
            topics=[{"name": topic, "partitions": partitions}],
        )
        return all(each.error_code == 0 for each in answer.topics[0].partitions)

    wait_until(commit, f"{broker.name} to coordinate {group_id}", 60)
