"""The events of a MariaDB become records: those of a server that runs, and those it once sent."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from capture.binlog.recorded import RECORDED, position, record, sent
from capture.binlog.scenarios import BEFORE, SCENARIOS, Scenario
from capture.binlog.server import Mariadb, running_mariadb
from drumlin.capture.binlog.changes import BinlogChanges, GroupUndone
from drumlin.capture.binlog_events.charsets import Charsets
from drumlin.capture.binlog_events.events import EventDecoder
from drumlin.capture.changes import OnTruncate, Table
from drumlin.capture.errors import CaptureError
from drumlin.capture.log.kept_rows import TopicRows
from drumlin.capture.log.position import BinlogPosition
from drumlin.capture.values.record import Record

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
    recorded = RECORDED[scenario.name]
    check(scenario, [bytes.fromhex(each) for each in recorded["events"]], recorded["start"])


_XID = 16
_QUERY = 2
_BY_NAME = {each.name: each for each in SCENARIOS}


def _recorded(name: str) -> tuple[list[bytes], str]:
    found = RECORDED[name]
    return [bytes.fromhex(each) for each in found["events"]], found["start"]


def _statement(text: str) -> bytes:
    body = struct.pack("<IIBHH", 0, 0, 0, 0, 0) + b"\0" + text.encode()
    data = struct.pack("<IBIIIH", 0, _QUERY, 7, 19 + len(body) + 4, 0, 0) + body
    return data + struct.pack("<I", zlib.crc32(data))


def test_group_that_is_rolled_back_in_the_end() -> None:
    """The server does so only after statements that no test could make it write."""
    events, start = _recorded("transaction")
    (end,) = (place for place, each in enumerate(events) if each[4] == _XID)
    events[end] = _statement("ROLLBACK")
    after, _ = _recorded("transaction")
    assert take(_BY_NAME["transaction"], events, start) == []
    assert len(take(_BY_NAME["transaction"], after, start)) == 2


def test_recognized_by_its_last_transaction() -> None:
    """It comes again, and its records do not."""
    events, start = _recorded("transaction")
    changes = BinlogChanges(_TABLES, charsets(), TopicRows(), BinlogPosition(start))
    decoded = [EventDecoder(True).take(memoryview(each)) for each in events]
    found = [each for each in decoded if each is not None]
    assert sum(len(list(changes.take(each))) for each in found) == 2
    reached = changes.position
    assert (reached.before, reached.gtids) == (start, reached.last)
    again = BinlogChanges(_TABLES, charsets(), TopicRows(), reached)
    assert sum(len(list(again.take(each))) for each in found) == 0
    assert again.position == reached
    for other in (replace(reached, last_time_s=7), replace(reached, last="0-7-1")):
        with pytest.raises(CaptureError, match="this is another binlog"):
            BinlogChanges(_TABLES, charsets(), TopicRows(), other).take(found[0])


def test_damaged_bytes_are_refused() -> None:
    """Each byte of each event: the checksum tells; and what is cut short is none."""
    for data in _recorded("insert")[0]:
        for place in range(0, len(data), 7):
            damaged = bytearray(data)
            damaged[place] ^= 0x40
            with pytest.raises(CaptureError):
                EventDecoder(True).take(memoryview(damaged))
        with pytest.raises(CaptureError):
            EventDecoder(True).take(memoryview(data[:-1]))


def test_any_bytes_are_an_error_of_captures(seed: int = 5) -> None:
    """Bytes that no checksum protects: an error names the culprit, and nothing else happens."""
    source = random.Random(seed)
    for name in ("insert", "update", "key of two columns", "compressed", "XA", "truncated"):
        events, start = _recorded(name)
        for _ in range(60):
            changes = BinlogChanges(
                _TABLES, charsets(), TopicRows(), BinlogPosition(start), OnTruncate.IGNORE
            )
            decoder = EventDecoder(True)
            try:
                for data in events:
                    event = decoder.take(memoryview(data))
                    if event is None:
                        continue
                    body = bytearray(event.body)
                    if source.random() < 0.3 and body:
                        body[source.randrange(len(body))] = source.randrange(256)
                        body = body[: source.choice((len(body), source.randrange(len(body) + 1)))]
                    list(changes.take(event._replace(body=memoryview(bytes(body)))))
            except CaptureError:
                pass


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
        start = position(server.url())
        for each in scenario.statements:
            cursor.execute(each)
    events = list(sent(server.url(), start))
    record(scenario.name, {"start": start, "events": [each.hex() for each in events]})
    check(scenario, events, start)
