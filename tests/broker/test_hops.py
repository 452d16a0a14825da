"""How long the ways of requests are: as docs/architecture.md shows them.

A further way is a further entry of `WAYS`, with its row in the document's table.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import CodeType
from typing import NamedTuple

import pytest

from broker.in_process import running
from broker.many_brokers import cluster, port
from drumlin.broker.net.connection import Connection
from drumlin.storage.files.files import Files
from drumlin.storage.segment.segment import Segment
from rig.data.batches import batch
from rig.data.raw import RawClient
from rig.documents.ways import Calls, Way, assert_as_told, noted, way_of
from rig.time.turn_lengths import unhurried

_TOPIC = "reached"
_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1


class Peer(NamedTuple):
    """Who asks: in a thread, while the loop serves."""

    client: RawClient

    def produce(self, acks: int = 1) -> None:
        part = {"index": 0, "records": batch(b"a record")}
        topic = {"name": _TOPIC, "partition_data": [part]}
        answer = self.client.ask("produce", 9, acks=acks, timeout=10_000, topic_data=[topic])
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
    return peer.commit


def _producing(peer: Peer) -> Callable[[], object]:
    return peer.produce


def _fetching(level: int, peer: Peer) -> Callable[[], object]:
    peer.produce()
    return partial(peer.fetch, level)


def _in_session(level: int, peer: Peer) -> Callable[[], object]:
    peer.produce()
    session_id = peer.fetch(level, epoch=0)
    epochs = itertools.count(1)
    return lambda: peer.fetch(level, session_id, epoch=next(epochs))


class Asked(NamedTuple):
    """From a client's request to the log, and back to the client.

    name: of its row in the document.
    last: class and name of the function by which the log is reached.
    prepare: does what comes before, and returns what sends the request.
    """

    name: str
    last: tuple[type, str]
    prepare: Callable[[Peer], Callable[[], object]]


_SEGMENT_READ = (Segment, "read")
WAYS = {
    "produce": Asked("produce", (Files, "write_at"), _producing),
    "commit": Asked("offset commit", (Files, "write_at"), _committing),
    "fetch-0": Asked("fetch", _SEGMENT_READ, partial(_fetching, _READ_UNCOMMITTED)),
    "fetch-1": Asked("fetch, read_committed", _SEGMENT_READ, partial(_fetching, _READ_COMMITTED)),
    "session": Asked("fetch in a session", _SEGMENT_READ, partial(_in_session, _READ_UNCOMMITTED)),
}
_ON_READABLE = Connection._on_readable.__code__
#: A broker is warm by then.
_TRIES = 4
_REST_S = 0.1


def _walk(asked: Asked, log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Way:
    """The way of a request to a broker that has answered some already."""
    stacks: list[list[CodeType]] = []
    calls = Calls(within=_ON_READABLE)

    def ask(port: int, loop: asyncio.AbstractEventLoop) -> None:
        with RawClient(port) as client:
            request = asked.prepare(Peer(client))
            for _ in range(_TRIES):
                request()
            _until_idle(loop)
            calls.is_noting = True
            request()
            _until_idle(loop)
            calls.is_noting = False
            with noted(_ON_READABLE, asked.last, monkeypatch) as found:
                request()
            stacks.extend(found)

    async def main() -> None:
        async with running(log_dir) as broker:
            await broker.metadata.create_topic(_TOPIC, [[broker.node_id]], {})
            await broker.groups.find_partition("g")
            with calls.noted():
                loop = asyncio.get_running_loop()
                await asyncio.to_thread(ask, broker.listeners[0].port, loop)

    asyncio.run(main())
    return way_of(stacks[0], calls.made)


def _until_idle(loop: asyncio.AbstractEventLoop) -> None:
    """The loop has done what the last request left to do."""
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result()


@pytest.mark.parametrize("case", WAYS)
def test_ways_are_as_the_document_shows(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    unhurried(monkeypatch)
    found = _walk(WAYS[case], tmp_path, monkeypatch)
    assert_as_told(WAYS[case].name, found, pytestconfig)


def test_the_way_of_a_record_that_a_follower_has_to_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    """All that leader and follower call until the producer is answered."""
    unhurried(monkeypatch)
    calls = Calls()
    counted: list[list[CodeType]] = []

    def ask(leader: int) -> None:
        with RawClient(leader) as client:
            for _ in range(2 * _TRIES):
                time.sleep(_REST_S)  # both brokers have nothing to do
                calls.made = []
                calls.is_noting = True
                Peer(client).produce(acks=-1)
                calls.is_noting = False
                counted.append(calls.made)

    async def main() -> None:
        async with cluster(tmp_path, monkeypatch) as brokers:
            settings = {"min.insync.replicas": "2"}
            await brokers[0].metadata.create_topic(_TOPIC, [[1, 2]], settings)
            with calls.noted():
                await asyncio.to_thread(ask, port(brokers[0]))

    asyncio.run(main())
    least = min(counted, key=len)  # nothing else was done meanwhile
    assert_as_told("produce, acks=all, with a follower", way_of([], least), pytestconfig)
