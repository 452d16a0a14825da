"""A TCP proxy before a PostgreSQL that cuts a connection at its commit. Lives in a thread."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Final, Literal

from rig.loop_thread import LoopThread
from rig.ports import free_ports

#: What becomes of the commit: it never arrives; it does, and its answer is lost; or it arrives once
#: the next connection asks for an advisory lock. "statement": a marked statement arrives, and is
#: the last one.
Cut = Literal["before", "after", "late", "statement"]

_COMMIT: Final = b"Q\0\0\0\x0bCOMMIT\0"
_LOCK: Final = b"advisory_lock"
_READ_BYTES: Final = 1 << 16


class CommitProxy(LoopThread):
    """Use it as a context manager.

    Cuts the connections that have sent `mark`, as long as `cuts` lasts.
    """

    def __init__(self, server_port: int, mark: bytes) -> None:
        super().__init__()
        self.port = free_ports(1)[0]
        self.cuts: Iterator[Cut] = iter(())
        self._server_port, self._mark = server_port, mark
        #: A connection to the server whose commit comes late.
        self._late: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def _start(self) -> None:
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self._servers.append(server)

    async def _serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        server, to_server = await asyncio.open_connection("127.0.0.1", self._server_port)
        answers = asyncio.ensure_future(_pass_on(server, to_client))
        try:
            cut = await self._pass_on_until_cut(client, to_server)
            if cut is None:
                return
            answers.cancel()
            to_client.close()
            if cut == "late":
                self._late, to_server = (server, to_server), to_client
            elif cut == "after":
                await _commit(server, to_server)
        finally:
            answers.cancel()
            to_server.close()
            to_client.close()

    async def _pass_on_until_cut(
        self, client: asyncio.StreamReader, to_server: asyncio.StreamWriter
    ) -> Cut | None:
        """What the client sends; returns how the connection is cut, or None at its own end."""
        cut: Cut | None = None
        with contextlib.suppress(ConnectionError):
            while sent := await client.read(_READ_BYTES):
                if _LOCK in sent and self._late is not None:
                    await _commit(*self._late)
                    self._late[1].close()
                    self._late = None
                if cut is None and self._mark in sent:
                    cut = next(self.cuts, None)
                if cut is not None and cut != "statement" and _COMMIT in sent:
                    return cut
                to_server.write(sent)
                if cut == "statement":
                    await to_server.drain()
                    return cut
        return None


async def _commit(server: asyncio.StreamReader, to_server: asyncio.StreamWriter) -> None:
    to_server.write(_COMMIT)
    assert b"COMMIT" in await server.read(_READ_BYTES)


async def _pass_on(server: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while answered := await server.read(_READ_BYTES):
            to_client.write(answered)
    to_client.close()
