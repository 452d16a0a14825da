"""What the outbox does with slices of log files that are not what they were."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from broker.in_process import running
from drumlin.broker.net.channel import PlainChannel
from drumlin.broker.net.outbox import SENDFILE_MIN_BYTES, Outbox
from drumlin.broker.start.broker import Broker
from drumlin.storage.files.files import Files
from drumlin.storage.segment.file_slice import FileSlice
from drumlin.wire.messages import encode_request
from rig.data.batches import batch
from rig.data.messages import build
from rig.waiting import wait_until
from storage.samples import append, create, open_logs

_RECORDS, _RECORD_BYTES = 24, 1_000_000
_BUFFER_BYTES = 1 << 20


@contextmanager
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    listening = socket.create_server(("127.0.0.1", 0))
    theirs = socket.create_connection(listening.getsockname())
    ours, _ = listening.accept()
    listening.close()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def test_an_answer_of_which_the_peer_takes_a_part_at_a_time() -> None:
    answer, received = os.urandom(8 << 20), bytearray()
    with pair() as (ours, theirs):
        outbox = Outbox(PlainChannel(ours))
        outbox.put([answer])
        assert not outbox.flush()  # more than the system takes
        assert outbox.is_full
        while len(received) < len(answer):
            received += theirs.recv(1 << 20)
            outbox.flush()
        assert outbox.flush()
    assert received == answer
    assert outbox.sent_bytes == len(answer)
    assert not outbox.is_full


@pytest.mark.parametrize("size", [1000, 2 * SENDFILE_MIN_BYTES])
def test_a_file_that_became_shorter_is_never_passed_off_as_whole(tmp_path: Path, size: int) -> None:
    """The peer was told how long the answer is; what came next would be taken for its rest."""
    logs = open_logs(tmp_path)
    log = create(logs)
    append(log, value=bytes(size))
    (piece,) = log.read(0, 1 << 20, 1, minimum_one_batch=True).slices
    os.truncate(log.segments.active.log_file.path, 200)
    with pair() as (ours, _):
        outbox = Outbox(PlainChannel(ours))
        with pytest.raises(OSError, match="log file ended"):
            outbox.put([b"announced", piece])
            outbox.flush()
        outbox.close()
    logs.abandon()


def test_very_many_small_slices_are_read_and_sent_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = open_logs(tmp_path)
    log = create(logs)
    append(log)
    reads: list[FileSlice] = []
    read = FileSlice.read_resident
    monkeypatch.setattr(
        FileSlice, "read_resident", lambda piece: (reads.append(piece), read(piece))[1]
    )
    monkeypatch.setattr("drumlin.broker.net.outbox.TURN_S", 0)
    pieces = [log.read(0, 1 << 20, 1, minimum_one_batch=True).slices[0] for _ in range(1000)]
    expected = b"head" + pieces[0].read() * len(pieces)
    with pair() as (ours, theirs):
        outbox = Outbox(PlainChannel(ours))
        outbox.put([b"head", *pieces])
        assert not reads
        turns = 1
        while not outbox.flush():
            assert len(reads) <= 256 * turns
            turns += 1
        assert turns == 4
        theirs.settimeout(20)
        received = b""
        while len(received) < len(expected):
            received += theirs.recv(1 << 20)
        assert received == expected
    assert not log.segments.active.log_file._leases
    logs.abandon()


class Memory:
    """Stands between a broker and its files: what is in memory, what waited for a disk.

    All is in memory until the peer takes no more at once. From then on only that is which a
    thread has brought.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_cold = False
        self.read = threading.Event()
        self.may_read = threading.Event()
        self.may_read.set()
        self.held_from = 0  # reads that go beyond this position in the file wait for `may_read`
        self._loop_thread = threading.get_ident()
        self._brought: set[int] = set()
        self._read_at = Files.read_at
        monkeypatch.setattr(Files, "is_resident_at", lambda _, __, at: self._is_resident(at))
        monkeypatch.setattr(Files, "read_at", lambda *arguments: self._bring(*arguments))
        send_file = PlainChannel.send_file

        def send(channel: PlainChannel, descriptor: int, position: int, size: int) -> int:
            # Of what is sent nothing may be cold but what a call sends beyond what it was to.
            assert self._is_resident(position), "waits for the disk"
            try:
                return send_file(channel, descriptor, position, size)
            except BlockingIOError:
                self.is_cold = True
                raise

        monkeypatch.setattr(PlainChannel, "send_file", send)

    def _is_resident(self, position: int) -> bool:
        return not self.is_cold or position >> 17 in self._brought

    def _bring(self, files: Files, descriptor: int, length: int, position: int) -> bytes:
        if self.is_cold and length > 10_000:
            assert threading.get_ident() != self._loop_thread
            if position + length > self.held_from:
                self.read.set()
                assert self.may_read.wait(60)
            self._brought |= set(range(position >> 17, (position + length >> 17) + 1))
        return bytes(self._read_at(files, descriptor, length, position))


@asynccontextmanager
async def _slow_peer(
    tmp_path: Path,
) -> AsyncIterator[tuple[Broker, asyncio.StreamReader, asyncio.StreamWriter]]:
    """A broker with 24 MB, and a peer: what lies between them takes a few of those at most."""
    # The system lets its own buffers grow to 32 MB, which is all of it.
    async with running(tmp_path, socket_send_buffer_bytes=str(_BUFFER_BYTES)) as broker:
        await _fill(broker)
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        sock.connect(("127.0.0.1", broker.listeners[0].port))
        reader, writer = await asyncio.open_connection(sock=sock)
        yield broker, reader, writer
        writer.close()


async def _fill(broker: Broker) -> None:
    await broker.metadata.create_topic("large", [[1]], {"max.message.bytes": "2000000"})
    partition = broker.partitions.get("large", 0)
    for number in range(_RECORDS):
        data = batch(bytes([number]) * _RECORD_BYTES)
        partition.append_internal(bytearray(data), 0)


def _fetch() -> bytes:
    part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 28}
    topics = [{"topic": "large", "partitions": [part]}]
    limits: dict[str, Any] = {"replica_id": -1, "max_bytes": 1 << 28, "min_bytes": 1}
    message = build("fetch", 11, {**limits, "session_epoch": -1, "topics": topics})
    return b"".join(encode_request("fetch", 11, 1, "slow", message))


async def _until(condition: Any, what: str) -> None:
    await asyncio.to_thread(wait_until, condition, what)


def test_what_left_memory_while_a_slow_peer_waited_is_read_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with _slow_peer(tmp_path) as (_, reader, writer):
            memory = Memory(monkeypatch)
            writer.write(_fetch())
            await _until(lambda: memory.is_cold, "the socket to take no more")
            size = int.from_bytes(await reader.readexactly(4), "big")
            answer = await asyncio.wait_for(reader.readexactly(size), 60)
            assert memory.read.is_set()
            for number in range(_RECORDS):
                assert bytes([number]) * _RECORD_BYTES in answer

    asyncio.run(run())


def test_a_file_is_kept_until_the_thread_that_reads_it_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released: list[FileSlice] = []
    release = FileSlice.release

    def note(piece: FileSlice) -> None:
        released.append(piece)
        release(piece)

    async def run() -> None:
        async with _slow_peer(tmp_path) as (broker, _, writer):
            memory = Memory(monkeypatch)
            memory.may_read.clear()
            writer.write(_fetch())
            await _until(memory.read.is_set, "a thread that reads")
            monkeypatch.setattr(FileSlice, "release", note)
            writer.close()
            await _until(lambda: not broker.server._connections, "the end of the connection")
            assert not released
            memory.may_read.set()
            await _until(lambda: released, "the file to be let go")

    asyncio.run(run())


def test_what_waited_behind_a_cold_file_goes_on_when_all_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else would start those requests: the peer sent them all, and took every answer."""
    requests = 1000
    # What the thread brings last is little enough for the socket to take it at once.
    monkeypatch.setattr("drumlin.broker.net.outbox._SENDFILE_STEP", _BUFFER_BYTES // 4)

    async def run() -> None:
        async with _slow_peer(tmp_path) as (broker, reader, writer):
            memory = Memory(monkeypatch)
            # Nothing is sent that was not read, so some read goes to the end.
            memory.held_from = _RECORDS * _RECORD_BYTES
            memory.may_read.clear()
            writer.write(_fetch())
            await _until(lambda: memory.is_cold, "the socket to take no more")
            size = int.from_bytes(await reader.readexactly(4), "big")
            answer = asyncio.create_task(reader.readexactly(size))
            await _until(memory.read.is_set, "a thread that reads the end of it")
            for number in range(requests):
                message = build("api_versions", 0, {})
                writer.writelines(encode_request("api_versions", 0, number, "slow", message))
            (connection,) = broker.server._connections
            outbox, taken = connection._outbox, cast(Any, reader)._buffer
            await _until(lambda: outbox.is_full, "more answers than are kept")
            await _until(lambda: outbox.sent_bytes == 4 + len(taken), "the peer to take it")
            memory.may_read.set()
            await asyncio.wait_for(answer, 60)
            for number in range(requests):
                size = int.from_bytes(await asyncio.wait_for(reader.readexactly(4), 20), "big")
                answered = await reader.readexactly(size)
                assert int.from_bytes(answered[:4], "big") == number

    asyncio.run(run())
