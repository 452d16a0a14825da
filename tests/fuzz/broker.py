"""Frames against a running broker: it answers or closes, serves the others, and stays small."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from crash.requests import create_topic, produce, read_all
from drumlin.broker.apis.served import SERVED
from drumlin.wire.error_codes import ErrorCode
from fuzz.frames import damaged, request_frame
from fuzz.limits import limit_memory, resident_bytes
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.batches import batch

_MIB = 1 << 20
_CONNECTIONS = 6
_PATIENCE_S = 2.0  # a request may wait as long as it says; then its connection is given up
_STEADY_PATIENCE_S = 20.0
_GROWTH_MAX_BYTES = 400 * _MIB
_SENTINEL_ID = 0x7FFFFF01
_SENTINEL = bytes.fromhex("0000000b00120000") + _SENTINEL_ID.to_bytes(4, "big") + b"\x00\x01s"
_HEADER_BYTES = 8  # key, version and correlation id: what makes it this request
_SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.backoff.ms": "1000",
}
_VERSIONS = [(api, v) for api, (low, high) in SERVED.items() for v in range(low, high + 1)]


@dataclass
class Tally:
    """What came of the frames that were sent."""

    frames: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        told = ", ".join(f"{count} {what}" for what, count in sorted(self.outcomes.items()))
        return f"{self.frames} frames: {told}"


def fuzz_broker(directory: Path, seed: str, seconds: float, frames: int) -> Tally:
    """Send frames until there were `frames` or the time is over; raises if anything is wrong."""
    server = DrumlinServer(directory, _SETTINGS)
    server.start()
    try:
        with server.connect() as client:
            create_topic(client, "steady", configs={"retention.ms": "-1"})  # records of 1970
            create_topic(client, "t", partitions=2)
            create_topic(client, "compacted", configs={"cleanup.policy": "compact"})
        limit_memory(server.pid)
        before = resident_bytes(server.pid)
        tally = asyncio.run(_Fuzzing(server, seed, seconds, frames).run())
        server.fail_if_ended()
        grown = resident_bytes(server.pid) - before
        assert grown < _GROWTH_MAX_BYTES, f"{grown} bytes more than before"
        server.check_output()
        server.restart()
        with server.connect() as client:
            assert len(read_all(client, "steady")) == tally.outcomes["steady"]
        server.check_output()
    finally:
        server.close()
    return tally


class _Fuzzing:
    """Some connections that send rubbish, and one that works."""

    def __init__(self, server: DrumlinServer, seed: str, seconds: float, frames: int) -> None:
        self._server = server
        self._rng = random.Random(seed)
        self._deadline = time.monotonic() + seconds
        self._frames = frames
        self._tally = Tally()

    def _goes_on(self) -> bool:
        return self._tally.frames < self._frames and time.monotonic() < self._deadline

    async def run(self) -> Tally:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(_CONNECTIONS):
                tasks.create_task(self._connections())
            tasks.create_task(asyncio.to_thread(self._work))
        return self._tally

    def _stop(self) -> None:
        self._deadline = 0.0

    def _work(self) -> None:
        """A client that works beside it is always answered."""
        with self._server.connect(timeout_s=_STEADY_PATIENCE_S) as client:
            while self._goes_on():
                assert produce(client, "steady", batch(b"x")).error_code == ErrorCode.none
                self._tally.outcomes["steady"] += 1

    async def _connections(self) -> None:
        try:
            while self._goes_on():
                self._server.fail_if_ended()
                await self._connection()
        finally:
            self._stop()

    async def _connection(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._server.port)
        try:
            while self._goes_on() and await self._burst(reader, writer):
                pass
        finally:
            writer.close()

    async def _burst(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Send one to three requests and a last one that is right; whether it is answered."""
        for _ in range(self._rng.choice((1, 1, 1, 3))):
            frame = self._frame()
            writer.write(len(frame).to_bytes(4, "big") + frame)
            self._tally.frames += 1
        writer.write(_SENTINEL)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await writer.drain()
                while True:
                    size = int.from_bytes(await reader.readexactly(4), "big")
                    answer = await reader.readexactly(size)
                    if int.from_bytes(answer[:4], "big") == _SENTINEL_ID:
                        return True
                    self._tally.outcomes["answered"] += 1
        except TimeoutError:
            self._tally.outcomes["waiting"] += 1
        except (asyncio.IncompleteReadError, ConnectionError):
            self._tally.outcomes["closed"] += 1
        return False

    def _frame(self) -> bytes:
        api, version = self._rng.choice(_VERSIONS)
        frame = request_frame(api, version, self._tally.frames, self._rng)
        if self._rng.random() < 0.65:
            frame = damaged(frame, self._rng, keep=_HEADER_BYTES)
        return frame
