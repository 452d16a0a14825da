"""A device fails while a fetch is being read: the client is told, the log dir goes offline."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterable
from pathlib import Path

import pytest

from broker.fetches import Fetches
from broker.in_process import running
from drumlin.broker import outbox
from drumlin.storage.file_slice import FileSlice
from drumlin.wire.errors import ErrorCode
from drumlin.wire.messages import encode_request
from rig.messages import build
from storage.samples import prepared


@pytest.mark.parametrize("epoch", [-1, 0])
def test_a_cold_read_that_fails(
    tmp_path: Path, epoch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: FileSlice) -> None:
        raise OSError(errno.EIO, "Input/output error")

    async def run() -> None:
        async with running(tmp_path) as broker:
            await broker.metadata.create_topic("fetched", [[broker.node_id]], {})
            partition = broker.partitions.get("fetched", 0)
            partition.append_as_leader(prepared(), 1, broker.clock.wall_ms())
            fetches = Fetches(broker)
            monkeypatch.setattr(FileSlice, "is_resident", lambda _: False)
            monkeypatch.setattr(FileSlice, "prefetch", fail)
            response = await fetches.response(12, fetches.frame(12, 0, session_epoch=epoch))
            (answer,) = response.responses[0].partitions
            assert answer.error_code is ErrorCode.kafka_storage_error
            assert not broker.logs.directories[0].is_online

    asyncio.run(run())


def test_an_answer_that_cannot_be_sent_keeps_no_file_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its first slice cannot be read; what follows was never handed over."""

    def fail(part: FileSlice) -> bytes:
        part.release()
        raise OSError(errno.EIO, "Input/output error")

    async def run() -> None:
        async with running(tmp_path) as broker:
            await broker.metadata.create_topic("t", [[broker.node_id]] * 3, {})
            partitions = [broker.partitions.get("t", index) for index in range(3)]
            for partition in partitions:
                partition.append_as_leader(prepared(), 1, broker.clock.wall_ms())
            monkeypatch.setattr(outbox, "_read_whole", fail)
            reader, writer = await asyncio.open_connection("127.0.0.1", broker.listeners[0].port)
            writer.write(fetch_all("t", range(3)))
            assert await reader.read() == b""
            writer.close()
            for partition in partitions:
                log_file = partition.log.segments.active.log_file
                assert not log_file._leases
        assert "Input/output error" in caplog.text
        assert "Traceback" not in caplog.text

    asyncio.run(run())


def fetch_all(topic: str, partitions: Iterable[int]) -> bytes:
    wanted = [
        {"partition": each, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        for each in partitions
    ]
    fields = {"replica_id": -1, "max_bytes": 1 << 20, "session_epoch": -1}
    message = build("fetch", 11, fields | {"topics": [{"topic": topic, "partitions": wanted}]})
    return b"".join(encode_request("fetch", 11, 1, "tester", message))
