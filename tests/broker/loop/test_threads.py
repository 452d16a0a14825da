"""Threads are apart by kind: a call that waits for a slow disk delays no other kind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from broker.in_process import running
from drumlin.broker.start.broker import Broker
from drumlin.storage.segment.file_slice import FileSlice
from rig.data.batches import batch
from rig.data.messages import render
from rig.data.raw import RawClient

#: More than any kind has.
_MANY = 40
_LIMIT_S = 20.0


@contextmanager
def _occupied(broker: Broker, kinds: Sequence[str]) -> Iterator[None]:
    """All threads of these kinds wait for a disk that does not answer."""
    answered = threading.Event()
    waiting = [
        asyncio.ensure_future(getattr(broker.threads, kind)(answered.wait))
        for kind in kinds
        for _ in range(_MANY)
    ]
    try:
        yield
    finally:
        assert not any(each.done() for each in waiting)
        answered.set()


def _produce(client: RawClient) -> None:
    """A compressed batch that is large enough to be looked into in a thread."""
    random = Random(1)
    records = batch(*(random.randbytes(100) for _ in range(300)), codec="gzip")
    assert len(records) > 16 * 1024
    answer = client.ask(
        "produce",
        9,
        acks=-1,
        topic_data=[{"name": "t", "partition_data": [{"index": 0, "records": records}]}],
    )
    assert render(answer)["responses"][0]["partition_responses"][0]["error_code"] == "none"


def _create_topic(client: RawClient) -> None:
    topic = {"name": "new", "num_partitions": 3, "replication_factor": 1}
    answer = client.ask("create_topics", 7, topics=[topic], timeout=10_000)
    assert render(answer)["topics"][0]["error_code"] == "none"


def test_the_loop_starts_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would wait until the thread runs, and serve no client meanwhile."""
    started: list[str] = []
    start = threading.Thread.start

    def starting(thread: threading.Thread) -> None:
        if threading.get_ident() == loop_thread:
            started.append(thread.name)
        start(thread)

    def use(port: int) -> None:
        with RawClient(port, timeout_s=_LIMIT_S) as client:
            _create_topic(client)
            client.ask("find_coordinator", 3, key="g", key_type=0)
            _produce(client)

    async def scenario() -> None:
        async with running(tmp_path) as broker:
            await broker.metadata.create_topic("t", [[broker.node_id]], {"flush.messages": "1"})
            using = asyncio.to_thread(use, broker.listeners[0].port)  # starts a thread itself
            task = asyncio.ensure_future(using)
            await asyncio.sleep(0)
            monkeypatch.setattr(threading.Thread, "start", starting)
            with _occupied(broker, ["reading", "computing", "syncing", "administering"]):
                await asyncio.sleep(0)
            await task
            monkeypatch.undo()

    loop_thread = threading.get_ident()
    asyncio.run(scenario())
    assert started == []


@pytest.mark.parametrize(
    ("use", "occupied"),
    [
        (_produce, ["reading", "administering"]),
        (_create_topic, ["reading", "syncing"]),
    ],
)
def test_others_go_on(
    tmp_path: Path, use: Callable[[RawClient], None], occupied: Sequence[str]
) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            settings = {"flush.messages": "1"}
            await broker.metadata.create_topic("t", [[broker.node_id]], settings)
            with (
                _occupied(broker, occupied),
                RawClient(broker.listeners[0].port, timeout_s=_LIMIT_S) as client,
            ):
                await asyncio.to_thread(use, client)

    asyncio.run(scenario())


def test_cold_reads_keep_nobody_from_producing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Consumers that read old data from a disk that does not answer."""
    answered, waiting = threading.Event(), threading.Semaphore(0)

    def prefetch(_: FileSlice) -> None:
        waiting.release()
        answered.wait()

    def use(port: int) -> None:
        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        readers = []
        with RawClient(port, timeout_s=_LIMIT_S) as client:
            _produce(client)
            monkeypatch.setattr(FileSlice, "is_resident", lambda _: False)
            monkeypatch.setattr(FileSlice, "keep", lambda _: False)
            monkeypatch.setattr(FileSlice, "prefetch", prefetch)
            for _ in range(20):
                reader = RawClient(port, timeout_s=_LIMIT_S)
                reader.send(
                    "fetch",
                    12,
                    max_bytes=1 << 20,
                    session_epoch=-1,
                    topics=[{"topic": "t", "partitions": [partition]}],
                )
                readers.append(reader)
            for _ in range(16):
                assert waiting.acquire(timeout=_LIMIT_S)
            _produce(client)
            answered.set()
            for reader in readers:
                (topic,) = render(reader.receive("fetch", 12))["responses"]
                assert topic["partitions"][0]["error_code"] == "none"
                reader.close()

    async def scenario() -> None:
        async with running(tmp_path) as broker:
            settings = {"flush.messages": "1"}
            await broker.metadata.create_topic("t", [[broker.node_id]], settings)
            try:
                await asyncio.to_thread(use, broker.listeners[0].port)
            finally:
                answered.set()

    asyncio.run(scenario())
