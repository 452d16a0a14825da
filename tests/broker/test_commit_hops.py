"""How long the way of an offset commit is, as `docs/architecture.md` counts it."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from broker.in_process import running
from drumlin.broker.connection import Connection
from drumlin.storage.files import Files
from drumlin.wire.messages import encode_request, parse_response
from rig.messages import build

_CALLS_MAX, _FILES_MAX = 12, 15
_VERSION = 8
_COMMIT: dict[str, Any] = {
    "group_id": "g",
    "generation_id_or_member_epoch": -1,
    "member_id": "",
    "topics": [
        {"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 3}]},
    ],
}
_ARCHITECTURE = Path(__file__).parents[2] / "docs" / "architecture.md"


def test_the_way_of_a_commit_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ways: list[list[str]] = []
    write_at = Files.write_at

    def noting(self: Files, *what: Any) -> None:
        way = _way(sys._getframe(1))
        if way:
            ways.append([*way, write_at.__code__.co_filename])
        write_at(self, *what)

    async def run() -> None:
        async with running(tmp_path) as broker:
            await broker.metadata.create_topic("t", [[broker.node_id]], {})
            await broker.groups.find_partition("g")
            client = await asyncio.open_connection("127.0.0.1", broker.listeners[0].port)
            assert await _code_of_commit(*client) == 0  # which compiles what the next one needs
            monkeypatch.setattr(Files, "write_at", noting)
            assert await _code_of_commit(*client) == 0
            client[1].close()

    asyncio.run(run())
    (way,) = ways  # it is one batch, written by one call
    calls, files = len(way), len(set(way))
    assert calls <= _CALLS_MAX
    assert files <= _FILES_MAX
    told = re.search(
        r"^\| offset commit \| (\d+) \| (\d+) \|", _ARCHITECTURE.read_text(), re.MULTILINE
    )
    assert told is not None
    assert (calls, files) == tuple(map(int, told.groups()))


def _way(frame: FrameType | None) -> list[str]:
    """The files of the calls from a connection's `_on_readable` to this one; none without that."""
    files: list[str] = []
    while frame is not None:
        files.insert(0, frame.f_code.co_filename)
        if frame.f_code is Connection._on_readable.__code__:
            return files
        frame = frame.f_back
    return []


async def _code_of_commit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
    message = build("offset_commit", _VERSION, _COMMIT)
    writer.write(b"".join(encode_request("offset_commit", _VERSION, 1, "tester", message)))
    size = int.from_bytes(await reader.readexactly(4), "big")
    response = parse_response("offset_commit", _VERSION, await reader.readexactly(size))[1]
    return int(response.topics[0].partitions[0].error_code)
