"""What stands between a client and its broker, and passes some answers on as something else."""

from __future__ import annotations

import asyncio
import contextlib
import random
import struct

from drumlin.wire.messages import API_KEYS
from fuzz.frames import damaged, response_frame
from rig.loop_thread import LoopThread

_NAMES = {key: name for name, key in API_KEYS.items()}
_CORRELATION_ID_BYTES = 4
_FALSE_SIZES = (2**31 - 1, 2**32 - 1, 0, 3, 60 << 20)


class HostileProxy(LoopThread):
    """Use it as a context manager. Clients come to `port`, and are taken to `broker_port`.

    `rate` is the share of answers that are damaged, replaced, cut off or announced with a size
    that is not theirs.
    """

    def __init__(self, port: int, broker_port: int, seed: str, rate: float) -> None:
        super().__init__()
        self._port = port
        self._broker_port = broker_port
        self._rng = random.Random(seed)
        self._rate = rate

    async def _start(self) -> None:
        self._servers.append(await asyncio.start_server(self._serve, "127.0.0.1", self._port))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked: dict[int, tuple[str, int]] = {}
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            from_broker, to_broker = await asyncio.open_connection("127.0.0.1", self._broker_port)
            try:
                answering = asyncio.create_task(self._pass_answers(from_broker, writer, asked))
                with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                    await _pass_requests(reader, to_broker, asked)
                to_broker.close()
                await answering
            finally:
                to_broker.close()
                writer.close()

    async def _pass_answers(
        self,
        from_broker: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        asked: dict[int, tuple[str, int]],
    ) -> None:
        while True:
            size = int.from_bytes(await from_broker.readexactly(4), "big")
            answer = await from_broker.readexactly(size)
            if self._rng.random() < self._rate:
                correlation_id = int.from_bytes(answer[:4], "big")
                size, answer = self._altered(answer, *asked.pop(correlation_id))
            writer.write(struct.pack(">I", size) + answer)
            await writer.drain()
            if size != len(answer):
                writer.close()

    def _altered(self, answer: bytes, api_name: str, version: int) -> tuple[int, bytes]:
        """Another answer, and the size to announce it with."""
        rng = self._rng
        if rng.random() < 0.6:
            correlation_id = int.from_bytes(answer[:4], "big")
            answer = response_frame(api_name, version, correlation_id, rng)
        if rng.random() < 0.6:
            answer = damaged(answer, rng, keep=_CORRELATION_ID_BYTES)
        if rng.random() < 0.05:
            return rng.choice(_FALSE_SIZES), answer
        return len(answer), answer


async def _pass_requests(
    reader: asyncio.StreamReader, to_broker: asyncio.StreamWriter, asked: dict[int, tuple[str, int]]
) -> None:
    while True:
        prefix = await reader.readexactly(4)
        request = await reader.readexactly(int.from_bytes(prefix, "big"))
        api_key, version, correlation_id = struct.unpack_from(">hhi", request)
        asked[correlation_id] = (_NAMES[api_key], version)
        to_broker.write(prefix + request)
        await to_broker.drain()
