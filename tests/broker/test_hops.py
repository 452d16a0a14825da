"""How long the ways of requests are, by the call stack: as short as docs/architecture.md says.

A further way is a further entry of `WAYS`, with its row in the document's table.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import CodeType
from typing import NamedTuple

import pytest

from broker.in_process import running
from drumlin.broker.net.connection import Connection
from drumlin.broker.start.broker import Broker
from drumlin.storage.files.files import Files
from drumlin.storage.segment.segment import Segment
from rig.batches import batch
from rig.raw import RawClient
from rig.turn_lengths import unhurried
from rig.ways import assert_as_told, noted

_TOPIC = "reached"
_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1


class Peer(NamedTuple):
    """Who asks: in a thread, while the loop serves."""

    client: RawClient
    broker: Broker

    def produce(self) -> None:
        part = {"index": 0, "records": batch(b"a record")}
        topic = {"name": _TOPIC, "partition_data": [part]}
        answer = self.client.ask("produce", 9, acks=1, timeout=10_000, topic_data=[topic])
        assert answer.responses[0].partition_responses[0].error_code == 0

    def fetch(self, level: int, session_id: int = 0, epoch: int = -1) -> int:
        """Fetch the records that are there; returns the session's id."""
        part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
        part |= {"current_leader_epoch": -1, "last_fetched_epoch": -1, "log_start_offset": -1}
        answer = self.client.ask(
            "fetch",
            12,
            replica_id=-1,
            max_bytes=1 << 20,
            isolation_level=level,
            session_id=session_id,
            session_epoch=epoch,
            topics=[] if epoch > 0 else [{"topic": _TOPIC, "partitions": [part]}],
        )
        assert answer.responses[0].partitions[0].records
        return int(answer.session_id)

    def commit(self) -> None:
        part = {"partition_index": 0, "committed_offset": 3}
        answer = self.client.ask(
            "offset_commit",
            8,
            group_id="g",
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[{"name": _TOPIC, "partitions": [part]}],
        )
        assert answer.topics[0].partitions[0].error_code == 0


def _committing(peer: Peer) -> Callable[[], object]:
    peer.commit()
    return peer.commit


def _producing(peer: Peer) -> Callable[[], object]:
    peer.produce()
    return peer.produce


def _fetching(level: int, peer: Peer) -> Callable[[], object]:
    peer.produce()
    peer.fetch(level)
    return partial(peer.fetch, level)


def _in_session(level: int, peer: Peer) -> Callable[[], object]:
    peer.produce()
    session_id = peer.fetch(level, epoch=0)
    return partial(peer.fetch, level, session_id, epoch=1)


class Way(NamedTuple):
    """From a client's request to the log.

    name: of its row in the document.
    last: class and name of the function at the end of it.
    prepare: does what comes before, and returns what sends the request.
    calls_max, files_max: so long it may become.
    """

    name: str
    last: tuple[type, str]
    prepare: Callable[[Peer], Callable[[], object]]
    calls_max: int
    files_max: int


_SEGMENT_READ = (Segment, "read")
WAYS = {
    "produce": Way("produce", (Files, "write_at"), _producing, 10, 10),
    "commit": Way("offset commit", (Files, "write_at"), _committing, 15, 15),
    **{
        f"fetch-{level}": Way("fetch", _SEGMENT_READ, partial(_fetching, level), 11, 10)
        for level in (_READ_UNCOMMITTED, _READ_COMMITTED)
    },
    **{
        f"session-{level}": Way(
            "fetch in a session", _SEGMENT_READ, partial(_in_session, level), 11, 10
        )
        for level in (_READ_UNCOMMITTED, _READ_COMMITTED)
    },
}


def _walk(way: Way, log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> list[CodeType]:
    """The functions on the way, at the first call of the last one."""
    ways: list[list[CodeType]] = []

    def ask(broker: Broker) -> None:
        with RawClient(broker.listeners[0].port) as client:
            request = way.prepare(Peer(client, broker))
            with noted(Connection._on_readable.__code__, way.last, monkeypatch) as found:
                request()
            ways.extend(found)

    async def main() -> None:
        async with running(log_dir) as broker:
            await broker.metadata.create_topic(_TOPIC, [[broker.node_id]], {})
            await broker.groups.find_partition("g")
            await asyncio.to_thread(ask, broker)

    asyncio.run(main())
    return ways[0]


@pytest.mark.parametrize("case", WAYS)
def test_ways_are_as_short_as_the_document_says(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unhurried(monkeypatch)
    way = WAYS[case]
    functions = _walk(way, tmp_path, monkeypatch)
    assert_as_told(way.name, functions, way.calls_max, way.files_max)
