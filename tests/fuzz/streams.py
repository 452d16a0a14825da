"""Connections of a stranger: plain, or through a TLS whose records it may alter on their way."""

from __future__ import annotations

import asyncio
import random
import ssl

from fuzz.tls_records import altered, first_message

_READ_BYTES = 1 << 16


class PlainStream:
    """Bytes as they are."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def receive_exactly(self, size: int) -> bytes:
        return await self._reader.readexactly(size)


class TlsStream:
    """A client's side of TLS.

    `rate`: of flights, those that are altered; what comes after one is not waited for.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        context: ssl.SSLContext,
        rng: random.Random,
        rate: float,
    ) -> None:
        self._reader, self._writer, self._rng, self._rate = reader, writer, rng, rate
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing)
        self.is_altered = False

    async def shake_hands(self) -> None:
        """
        Raises:
            EOFError, ConnectionError, SSLError: it has failed, or was altered.
        """
        if self._rng.random() < 0.3 * self._rate:
            self._writer.write(first_message(self._rng))
            self.is_altered = True
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                await self._fill()
            else:
                return await self._flush()

    async def send(self, data: bytes) -> None:
        self._tls.write(data)
        await self._flush()

    async def receive_exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            try:
                received = self._tls.read(size - len(data))
            except ssl.SSLWantReadError:
                await self._fill()
                continue
            if not received:
                raise EOFError("the broker has said that this is the end")
            data += received
        return data

    async def _flush(self) -> None:
        flight = self._outgoing.read()
        if not flight:
            return
        if self._rng.random() < self._rate:
            flight, self.is_altered = altered(flight, self._rng), True
        if self._rng.random() < self._rate:  # cut anywhere
            at = self._rng.randrange(len(flight) + 1)
            self._writer.write(flight[:at])
            await self._writer.drain()
            await asyncio.sleep(0)
            flight = flight[at:]
        self._writer.write(flight)
        await self._writer.drain()

    async def _fill(self) -> None:
        if self.is_altered:
            raise EOFError("there may be no answer")
        data = await self._reader.read(_READ_BYTES)
        if not data:
            raise EOFError("the broker has closed the connection")
        self._incoming.write(data)
