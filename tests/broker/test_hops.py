"""How long the ways of requests are, by the call stack: as short as docs/architecture.md says.

A further way is a further entry of `WAYS`, with its row in the document's table.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

import pytest

import drumlin
from broker.in_process import running
from drumlin.broker.broker import Broker
from drumlin.broker.connection import Connection
from drumlin.storage.files import Files
from drumlin.storage.segment import Segment
from rig.batches import batch
from rig.raw import RawClient

_ROOT = Path(__file__).parents[2]
_SOURCES = Path(drumlin.__file__).parent
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
    first: the function at its beginning.
    """

    name: str
    last: tuple[type, str]
    prepare: Callable[[Peer], Callable[[], object]]
    calls_max: int
    files_max: int
    first: CodeType = Connection._on_readable.__code__


_SEGMENT_READ = (Segment, "read")
WAYS = {
    "produce": Way("produce", (Files, "write_at"), _producing, 10, 10),
    **{
        f"fetch-{level}": Way("fetch", _SEGMENT_READ, partial(_fetching, level), 10, 10)
        for level in (_READ_UNCOMMITTED, _READ_COMMITTED)
    },
    **{
        f"session-{level}": Way(
            "fetch in a session", _SEGMENT_READ, partial(_in_session, level), 10, 10
        )
        for level in (_READ_UNCOMMITTED, _READ_COMMITTED)
    },
}


class Told(NamedTuple):
    """A row of the document."""

    calls: int
    files: int
    names: list[str]


def _told() -> dict[str, Told]:
    text = (_ROOT / "docs" / "architecture.md").read_text("utf-8")
    section = text.split("## How long the ways are")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (\d+) \| (\d+) \| (.+) \|$", section, re.MULTILINE)
    return {
        name: Told(int(calls), int(files), re.findall(r"`(.+?)`", names))
        for name, calls, files, names in rows
    }


def _stack(first: CodeType) -> list[CodeType]:
    """The functions from `first` down to the one that has called what calls this; or none."""
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    frame = frame.f_back.f_back
    found = []
    while frame is not None:
        found.append(frame.f_code)
        if frame.f_code is first:
            return found[::-1]
        frame = frame.f_back
    return []


def _walk(way: Way, log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> list[CodeType]:
    """The functions on the way, at the first call of the last one."""
    owner, name = way.last
    real = getattr(owner, name)
    stacks: list[list[CodeType]] = []

    def noting(*args: Any, **more: Any) -> Any:
        stack = _stack(way.first)
        if stack:
            stacks.append([*stack, real.__code__])
        return real(*args, **more)

    def ask(broker: Broker) -> None:
        with RawClient(broker.listeners[0].port) as client:
            request = way.prepare(Peer(client, broker))
            with monkeypatch.context() as patched:
                patched.setattr(owner, name, noting)
                request()

    async def main() -> None:
        async with running(log_dir) as broker:
            await broker.metadata.create_topic(_TOPIC, [[broker.node_id]], {})
            await asyncio.to_thread(ask, broker)

    asyncio.run(main())
    return stacks[0]


@pytest.mark.parametrize("case", WAYS)
def test_ways_are_as_short_as_the_document_says(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    way = WAYS[case]
    told = _told()[way.name]
    functions = _walk(way, tmp_path, monkeypatch)
    sources = dict.fromkeys(Path(each.co_filename) for each in functions)
    files = [str(each.relative_to(_SOURCES).with_suffix("")) for each in sources]
    shown = " > ".join(each.co_qualname for each in functions)
    assert (len(functions) - 1, len(files)) == (told.calls, told.files), shown
    assert len(files) == len(told.names), files
    assert all(
        f"/{each}".endswith(f"/{name}") for each, name in zip(files, told.names, strict=True)
    ), files
    assert told.calls <= way.calls_max
    assert told.files <= way.files_max
