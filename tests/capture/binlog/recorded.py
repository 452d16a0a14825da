"""What a MariaDB has sent once, kept in `events.json`, and what one sends now.

With `DRUMLIN_TEST_RECORD=1` the tests with a server write what it sends into that file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drumlin.capture.binlog import catalog, connections
from drumlin.capture.binlog.stream import Stream
from drumlin.capture.binlog_events import events
from drumlin.capture.binlog_events.gtids import GtidPosition

_FILE = Path(__file__).parent / "events.json"
RECORDED: dict[str, Any] = json.loads(_FILE.read_text()) if _FILE.exists() else {}


def record(name: str, what: Any) -> None:
    if os.environ.get("DRUMLIN_TEST_RECORD"):
        RECORDED[name] = what
        _FILE.write_text(json.dumps(RECORDED, indent=0))


def position(url: str) -> str:
    """Where the server's binlog ends."""
    with connections.connected(url) as connection:
        return catalog.position(connection)


def sent(url: str, start: str) -> Iterator[bytes]:
    """All events after a place."""
    end, reached = position(url), GtidPosition.parse(start)
    stream = Stream(url, start, 4_000_000_000)
    decoder = events.EventDecoder(stream.has_checksums)
    try:
        while True:
            data = stream.read(0.5 if str(reached) == end else 5)
            if data is None:
                return
            yield bytes(data)
            event = decoder.take(data)
            if event is not None and event.kind == events.GTID:
                reached = reached.after(events.group_of(event).gtid)
    finally:
        stream.close()
