"""Slices of segment files go to a socket by `sendfile`, however slowly its peer reads."""

from __future__ import annotations

import asyncio
import os
import random
import socket
from pathlib import Path
from typing import Any

import pytest

from broker.configs.test_keys_with_effect import create, fetch, produce
from broker.in_process import running
from rig.data.batches import batch
from rig.data.messages import render
from rig.data.raw import RawClient


def test_a_slow_reader_gets_all_of_a_slice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance, sent, plain = random.Random(1), list[int](), os.sendfile
    records = [batch(chance.randbytes(90_000)) for _ in range(4)]

    def counted(out: int, source: int, position: int, size: int) -> int:
        count = plain(out, source, position, size)
        sent.append(count)
        return count

    monkeypatch.setattr(os, "sendfile", counted)

    def script(port: int) -> bytes:
        with RawClient(port) as client:

            def ask(api: str, version: int, **fields: Any) -> Any:
                return render(client.ask(api, version, **fields))

            create(ask, "t")
            for each in records:
                produce(ask, "t", each)
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32768)
            (topic,) = fetch(ask, "t", 1, session_epoch=-1)["responses"]
            return bytes(topic["partitions"][0]["records"])

    async def main() -> bytes:
        async with running(tmp_path, socket_send_buffer_bytes="16384") as broker:
            return await asyncio.to_thread(script, broker.listeners[0].port)

    got = asyncio.run(main())
    log = (tmp_path / "t-0" / f"{0:020}.log").read_bytes()
    assert got == log
    assert sum(sent) == len(log)
    assert len(sent) > 1  # the socket did not take it at once
