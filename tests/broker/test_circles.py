"""What a request leaves goes at once: nothing of it hangs together in circles.

Garbage in circles may stay for hours (`broker/loop/garbage.py`), and an answer with it.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest

from broker.in_process import running
from rig.data.batches import batch
from rig.data.raw import RawClient
from rig.time.turn_lengths import unhurried

_TIMES = 3
_LIMIT_S = 20.0


@contextmanager
def _circles() -> Iterator[set[str]]:
    """The types of ours of which something was left in circles; they are known afterwards."""
    found: set[str] = set()
    gc.collect()
    gc.disable()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        types = {type(each) for each in gc.garbage}
        found |= {each.__name__ for each in types if each.__module__.startswith("drumlin.")}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def _fetch(epoch: int) -> Callable[[RawClient], Any]:
    """One that waits, as there is nothing; with epoch 0 in a session."""
    partition = {"partition": 1, "fetch_offset": 0, "partition_max_bytes": 1000}
    topics = [{"topic": "t", "partitions": [partition]}]
    wait = {"max_wait": 5, "min_bytes": 1, "max_bytes": 1000}
    return lambda client: client.ask("fetch", 12, **wait, session_epoch=epoch, topics=topics)


def _produce(client: RawClient) -> None:
    """So much that it is looked into in a thread."""
    random = Random(1)
    records = batch(*(random.randbytes(100) for _ in range(500)), codec="gzip")
    partitions = [{"index": 0, "records": records}]
    topics = [{"name": "t", "partition_data": partitions}]
    client.ask("produce", 9, acks=-1, topic_data=topics)


def _list_offsets(client: RawClient) -> None:
    partitions = [{"partition_index": 0, "timestamp": 5}]
    topics = [{"name": "t", "partitions": partitions}]
    client.ask("list_offsets", 7, replica_id=-1, topics=topics)


def _create_topic(client: RawClient) -> None:
    topic = {"name": "new", "num_partitions": 1, "replication_factor": 1}
    client.ask("create_topics", 7, topics=[topic], timeout=10_000)
    client.ask("delete_topics", 5, topic_names=["new"], timeout=10_000)


def _refused(client: RawClient) -> None:
    """Requests of all kinds, each for a topic or group of its own."""
    bad = {"name": "bad name", "num_partitions": 1, "replication_factor": 1}
    client.ask("create_topics", 7, topics=[bad], timeout=10_000)
    unknown = [{"name": None, "topic_id": UUID(int=9)}]
    client.ask("delete_topics", 6, topics=unknown, timeout=10_000)
    resources = [{"resource_type": 2, "resource_name": "nope", "configs": []}]
    client.ask("alter_configs", 2, resources=resources)
    client.ask("incremental_alter_configs", 1, resources=resources)
    client.ask("delete_groups", 2, groups_names=["nope", "neither"])
    partitions = [{"partition_index": each} for each in range(3)]
    topics = [{"name": "t", "partitions": partitions}]
    client.ask("offset_delete", 0, group_id="nope", topics=topics)


def _break_off(client: RawClient) -> None:
    """In the middle of a request, and while an answer is awaited."""
    partition = {"partition": 1, "fetch_offset": 0, "partition_max_bytes": 1000}
    topics = [{"topic": "t", "partitions": [partition]}]
    port = client.socket.getpeername()[1]
    with RawClient(port) as other:
        other.ask("api_versions", 0)
        other.send("fetch", 12, max_wait=60_000, min_bytes=1, max_bytes=9, topics=topics)
    with RawClient(port) as other:
        other.ask("api_versions", 0)
        other.send_bytes((1 << 20).to_bytes(4, "big") + bytes(100_000))


USES: dict[str, Callable[[RawClient], Any]] = {
    "fetch": _fetch(-1),
    "session": _fetch(0),
    "produce": _produce,
    "list_offsets": _list_offsets,
    "create_topic": _create_topic,
    "refused": _refused,
    "break_off": _break_off,
}


def test_an_answer_that_comes_later_leaves_nothing_in_circles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unhurried(monkeypatch)

    def use_it(port: int, use: Callable[[RawClient], Any]) -> None:
        with RawClient(port, timeout_s=_LIMIT_S) as client:
            for _ in range(_TIMES):
                use(client)

    async def scenario() -> None:
        async with running(tmp_path) as broker:
            await broker.metadata.create_topic("t", [[broker.node_id]] * 2, {})
            port = broker.listeners[0].port
            for name, use in USES.items():
                await asyncio.to_thread(use_it, port, use)  # the first time much is imported
                await broker.server.closed(_LIMIT_S)
                with _circles() as found:
                    await asyncio.to_thread(use_it, port, use)
                    await broker.server.closed(_LIMIT_S)
                assert found == set(), name

    gc.freeze()  # what other tests have left behind takes seconds to look through
    try:
        asyncio.run(scenario())
    finally:
        gc.unfreeze()
