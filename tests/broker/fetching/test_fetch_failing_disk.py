"""A device fails while a fetch is being read: the client is told, the log dir goes offline."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from broker.fetches import Fetches
from broker.in_process import running
from drumlin.broker.net import outbox
from drumlin.broker.start.broker import Broker
from drumlin.storage.directory.log_directory import LogDirectory, storage_error
from drumlin.storage.files.files import Files
from drumlin.storage.segment.file_slice import FileSlice
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import encode_request, parse_response
from rig.data.messages import build
from rig.waiting import wait_until
from storage.samples import prepared


class Disk:
    """Stands between a broker and the files of one folder: they can't be read while it fails."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self.fails = self.is_cold = False
        for name in ("read_at", "read_resident_at"):
            monkeypatch.setattr(Files, name, self._door(getattr(Files, name)))
        is_resident_at, sendfile = Files.is_resident_at, os.sendfile
        monkeypatch.setattr(
            Files, "is_resident_at", lambda *given: not self.is_cold and is_resident_at(*given)
        )

        def send(out: int, source: int, position: int, size: int) -> int:
            self.check(source)
            return sendfile(out, source, position, size)

        monkeypatch.setattr(os, "sendfile", send)

    def _door(self, read: Callable[..., Any]) -> Callable[..., Any]:
        def checked(files: Files, descriptor: int, length: int, position: int) -> Any:
            self.check(descriptor)
            return read(files, descriptor, length, position)

        return checked

    def fail(self) -> None:
        self.fails = True

    def check(self, descriptor: int) -> None:
        if self.fails and Path(f"/proc/self/fd/{descriptor}").readlink().is_relative_to(
            self._folder
        ):
            raise OSError(errno.EIO, "Input/output error")


async def _fill(broker: Broker, size: int) -> LogDirectory:
    """A partition in each of the two log dirs; that of the first one is returned."""
    await broker.metadata.create_topic("t", [[broker.node_id]] * 2, {})
    for index in (0, 1):
        partition = broker.partitions.get("t", index)
        value = os.urandom(size)
        partition.append_as_leader(prepared(value=value), 1, broker.clock.wall_ms())
    return broker.partitions.get("t", 0).log.log_directory


async def _codes(port: int) -> dict[int, int]:
    """What a fetch of both partitions is told, by partition; none if the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(fetch_all("t", range(2)))
        size = int.from_bytes(await reader.readexactly(4), "big")
        _, answer = parse_response("fetch", 11, memoryview(await reader.readexactly(size)))
    except asyncio.IncompleteReadError:
        return {}
    finally:
        writer.close()
    (topic,) = answer.responses
    return {each.partition_index: each.error_code for each in topic.partitions}


_NEITHER = {0: ErrorCode.none, 1: ErrorCode.none}
_FIRST = {0: ErrorCode.kafka_storage_error, 1: ErrorCode.none}


@pytest.mark.parametrize("size", [10_000, 4 * outbox.SENDFILE_MIN_BYTES])
def test_a_disk_that_fails_while_records_are_sent(
    tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log dir learns of it, and the others serve on."""
    put = outbox.Outbox.put

    async def run() -> None:
        async with running(tmp_path / "a", tmp_path / "b") as broker:
            port = broker.listeners[0].port
            failing = await _fill(broker, size)
            disk = Disk(Path(failing.path), monkeypatch)
            assert await _codes(port) == _NEITHER
            with monkeypatch.context() as patched:
                patched.setattr(outbox.Outbox, "put", lambda *given: (disk.fail(), put(*given)))
                assert await _codes(port) == {}  # as it was told how many bytes come
            await asyncio.to_thread(wait_until, lambda: not failing.is_online, "its log dir")
            assert await _codes(port) == _FIRST
            assert sum(each.is_online for each in broker.logs.directories) == 1

    asyncio.run(run())


def test_a_socket_that_fails_while_records_are_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says nothing of whose it is; the file can be read, so it is not the disk's."""
    looked_at: list[int] = []
    prefetch = FileSlice.prefetch

    def noted(piece: FileSlice, start: int, size: int) -> None:
        prefetch(piece, start, size)
        looked_at.append(size)

    def fail(*_: int) -> int:
        raise OSError(errno.EIO, "Input/output error")

    async def run() -> None:
        async with running(tmp_path / "a", tmp_path / "b") as broker:
            port = broker.listeners[0].port
            await _fill(broker, 4 * outbox.SENDFILE_MIN_BYTES)
            monkeypatch.setattr(FileSlice, "prefetch", noted)
            with monkeypatch.context() as patched:
                patched.setattr(os, "sendfile", fail)
                assert await _codes(port) == {}
                await asyncio.to_thread(wait_until, lambda: looked_at, "a look at the file")
            assert all(each.is_online for each in broker.logs.directories)
            assert await _codes(port) == _NEITHER
            log = broker.partitions.get("t", 0).log
            assert not log.segments.active.log_file._leases

    asyncio.run(run())


@pytest.mark.parametrize("epoch", [-1, 0])
def test_a_cold_read_that_fails(
    tmp_path: Path, epoch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with running(tmp_path) as broker:
            await broker.metadata.create_topic("fetched", [[broker.node_id]], {})
            partition = broker.partitions.get("fetched", 0)
            partition.append_as_leader(prepared(), 1, broker.clock.wall_ms())
            fetches = Fetches(broker)
            disk = Disk(tmp_path / "fetched-0", monkeypatch)
            disk.is_cold = disk.fails = True
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
        raise storage_error("Input/output error")

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
