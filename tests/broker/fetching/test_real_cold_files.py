"""Files that have really left the page cache: their reader waits for the disk, and nobody else.

The disk is slowed down, so that there is a time in which others can be served: all else is real.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.in_process import running
from drumlin.broker.start.broker import Broker
from drumlin.storage.files.files import Files
from drumlin.wire.messages import encode_request, parse_response
from rig.data.batches import batch
from rig.data.messages import build
from rig.waiting import eventually

_VALUE = bytes(4 << 20)


@pytest.fixture
def on_disk() -> Iterator[Path]:
    """A folder on a file system with a device: pages of a tmpfs cannot leave the memory."""
    with tempfile.TemporaryDirectory(dir=Path(__file__).parents[3]) as folder:
        yield Path(folder)


class SlowDisk:
    """Reads of many bytes wait in their thread until they may go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_reading = threading.Event()
        self.may_read = threading.Event()
        self.threads: set[int] = set()
        read_at = Files.read_at

        def slowly(files: Files, descriptor: int, length: int, position: int) -> bytes:
            if length > 100_000:
                self.threads.add(threading.get_ident())
                self.is_reading.set()
                assert self.may_read.wait(60)
            return read_at(files, descriptor, length, position)

        monkeypatch.setattr(Files, "read_at", slowly)


def _forget(broker: Broker) -> None:
    """Have the topic's file leave the page cache."""
    log = broker.partitions.get("t", 0).log
    log.flush()
    file = log.segments.active.log_file
    with file as descriptor:
        log.log_directory.files.forget_cached(descriptor)
        if log.log_directory.files.is_resident_at(descriptor, len(_VALUE) // 2):
            pytest.skip("this file system keeps its pages: they cannot be cold")


async def _ask(broker: Broker, api: str, version: int, **fields: Any) -> Any:
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.listeners[0].port)
    writer.writelines(encode_request(api, version, 1, "c", build(api, version, fields)))
    size = int.from_bytes(await reader.readexactly(4), "big")
    frame = await reader.readexactly(size)
    writer.close()
    return parse_response(api, version, frame)[1]


def test_others_are_served_while_a_reader_waits_for_the_disk(
    on_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with running(on_disk) as broker:
            await broker.metadata.create_topic("t", [[1]], {"max.message.bytes": "8000000"})
            broker.partitions.get("t", 0).append_internal(bytearray(batch(_VALUE)), 0)
            await asyncio.to_thread(_forget, broker)
            disk = SlowDisk(monkeypatch)
            part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 28}
            fields = {"replica_id": -1, "max_bytes": 1 << 28, "min_bytes": 1, "session_epoch": -1}
            fields |= {"topics": [{"topic": "t", "partitions": [part]}]}
            fetching = asyncio.create_task(_ask(broker, "fetch", 11, **fields))
            await eventually(disk.is_reading.is_set)
            for _ in range(20):
                answer = await asyncio.wait_for(_ask(broker, "metadata", 9, topics=[]), 30)
                assert answer.brokers
            assert not fetching.done()
            disk.may_read.set()
            answer = await asyncio.wait_for(fetching, 60)
            assert _VALUE in bytes(answer.responses[0].partitions[0].records)
            assert threading.get_ident() not in disk.threads

    asyncio.run(scenario())
