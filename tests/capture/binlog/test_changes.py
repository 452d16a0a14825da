"""The events of a MariaDB become records: those of a server that runs, and those it once sent.

`DRUMLIN_TEST_RECORD=1` has what it sends written into `events.json`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from capture.binlog.scenarios import BEFORE, SCENARIOS, Scenario
from capture.binlog.server import Mariadb, running_mariadb
from drumlin.capture.binlog import catalog, connections
from drumlin.capture.binlog.changes import BinlogChanges, GroupUndone
from drumlin.capture.binlog.stream import Stream
from drumlin.capture.binlog_events.charsets import Charsets
from drumlin.capture.binlog_events.events import EventDecoder
from drumlin.capture.binlog_events.gtids import GtidPosition
from drumlin.capture.changes import Table
from drumlin.capture.errors import CaptureError
from drumlin.capture.log.kept_rows import TopicRows
from drumlin.capture.log.position import BinlogPosition
from drumlin.capture.values.record import Record

_FILE = Path(__file__).parent / "events.json"
_RECORDED: dict[str, Any] = json.loads(_FILE.read_text()) if _FILE.exists() else {}
_TABLES = (
    Table(1, "shop", "item", "item", ("id",), ("integer",)),
    Table(2, "shop", "other", "other", ("b", "a"), ("decimal:2", "text")),
)
_LATIN1 = bytes(range(256)).decode("cp1252", errors="replace")


def charsets() -> Charsets:
    return Charsets(
        {8: "latin1", 33: "utf8mb3", 45: "utf8mb4", 63: "binary", 2304: "utf8mb4"},
        {"latin1": _LATIN1},
    )


def take(scenario: Scenario, events: Sequence[bytes], start: str) -> list[Record]:
    """The records of all events; again without a group that was rolled back."""
    undone: set[str] = set()
    while True:
        rows = TopicRows()
        rows._topics.add("item")
        for number, name in ((1, "one"), (2, "two")):
            rows.put("item", f'{{"id":{number}}}', f'{{"id":{number},"name":"{name}"}}')
        changes = BinlogChanges(
            _TABLES, charsets(), rows, BinlogPosition(start), scenario.on_truncate, undone
        )
        decoder = EventDecoder(True)
        found = []
        try:
            for data in events:
                event = decoder.take(memoryview(data))
                if event is not None:
                    found += changes.take(event)
            assert not changes.in_group
            return found
        except GroupUndone as error:
            undone.add(error.gtid)
        finally:
            rows.close()


def check(scenario: Scenario, events: Sequence[bytes], start: str) -> None:
    if scenario.error:
        with pytest.raises(CaptureError) as raised:
            take(scenario, events, start)
        assert scenario.error in str(raised.value)
        assert "secret" not in str(raised.value)
    else:
        found = take(scenario, events, start)
        assert [(each.key, each.value) for each in found] == list(scenario.records)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[each.name for each in SCENARIOS])
def test_recorded(scenario: Scenario) -> None:
    recorded = _RECORDED[scenario.name]
    check(scenario, [bytes.fromhex(each) for each in recorded["events"]], recorded["start"])


@pytest.fixture(scope="module")
def server() -> Iterator[Mariadb]:
    with running_mariadb() as found:
        yield found


@pytest.mark.deep
@pytest.mark.parametrize("scenario", SCENARIOS, ids=[each.name for each in SCENARIOS])
def test_live(server: Mariadb, scenario: Scenario) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        for each in BEFORE:
            cursor.execute(each)
        with connections.connected(server.url()) as other:
            start = catalog.position(other)
        for each in scenario.statements:
            cursor.execute(each)
    with connections.connected(server.url()) as other:
        end = GtidPosition.parse(catalog.position(other))
    events = [bytes(each) for each in sent(server.url(), start, end)]
    if os.environ.get("DRUMLIN_TEST_RECORD"):
        _RECORDED[scenario.name] = {"start": start, "events": [each.hex() for each in events]}
        _FILE.write_text(json.dumps(_RECORDED, indent=0))
    check(scenario, events, start)


def sent(url: str, start: str, end: GtidPosition) -> Iterator[memoryview]:
    """All events from one place to another."""
    position = GtidPosition.parse(start)
    stream = Stream(url, start, 4_000_000_000)
    decoder = EventDecoder(stream.has_checksums)
    try:
        last = None
        while True:
            data = stream.read(0.5 if str(position) == str(end) else 5)
            if data is None:
                return
            yield data
            event = decoder.take(data)
            if event is not None and event.kind == 162:
                from drumlin.capture.binlog_events.events import group_of

                last = group_of(event).gtid
                position = position.after(last)
    finally:
        stream.close()
