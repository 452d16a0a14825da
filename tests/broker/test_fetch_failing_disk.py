"""A device fails while a fetch is being read: the client is told, the log dir goes offline."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from broker.in_process import running
from broker.test_fetch_lane import Fixture, Peer
from drumlin.storage.file_slice import FileSlice
from drumlin.wire.errors import ErrorCode
from drumlin.wire.messages import parse_response
from storage.samples import prepared


def test_a_cold_read_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: FileSlice) -> None:
        raise OSError(errno.EIO, "Input/output error")

    async def run() -> None:
        async with running(tmp_path) as broker:
            await broker.metadata.create_topic("fetched", [[broker.node_id]], {})
            partition = broker.partitions.get("fetched", 0)
            partition.append_as_leader(prepared(), 1, broker.clock.wall_ms())
            fixture = Fixture(broker)
            monkeypatch.setattr(FileSlice, "is_resident", lambda _: False)
            monkeypatch.setattr(FileSlice, "prefetch", fail)
            dispatched = fixture.router.dispatch(Peer(), fixture.frame(12, 0))
            assert dispatched.waiting is not None
            parts = await dispatched.waiting
            assert parts is not None
            _, response = parse_response("fetch", 12, b"".join(parts)[4:])
            (answer,) = response.responses[0].partitions
            assert answer.error_code is ErrorCode.kafka_storage_error
            assert not broker.logs.directories[0].is_online

    asyncio.run(run())
