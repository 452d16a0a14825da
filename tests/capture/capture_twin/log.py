"""A model of a log: transactions of one transactional id, and what must hold after each of them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import NamedTuple

from capture.capture_twin.database import TABLES, Server
from drumlin.capture.log.position import Definition, Position
from drumlin.capture.values.record import Record


class Broken(AssertionError):
    """A promise was broken."""


class Entry(NamedTuple):
    """As `client.read_records` tells it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


@dataclass
class Log:
    """What is committed."""

    server: Server
    epoch: int = 0
    position: Position | None = None
    definition: Definition | None = None
    topics: dict[str, str] = field(default_factory=dict)  # ids
    entries: dict[str, list[Entry]] = field(default_factory=dict)
    versions: dict[tuple[str, str], int] = field(default_factory=dict)  # the newest of each key
    commits: int = 0

    def state(self, topic: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for each in self.entries.get(topic, ()):
            assert each.key is not None
            if each.value is None:
                found.pop(each.key.decode(), None)
            else:
                found[each.key.decode()] = each.value.decode()
        return found

    def commit(
        self, records: list[Record], position: Position, definition: Definition | None
    ) -> None:
        self.commits += 1
        before = self.position
        for each in records:
            self._append(each)
        self.position = position
        self.definition = definition or self.definition
        if position.lsn is None:
            return
        if (
            before is not None
            and before.lsn is not None
            and before.timeline == position.timeline
            and position.lsn < before.lsn
        ):
            raise Broken(f"the position goes back from {before.lsn} to {position.lsn}")
        self.check()

    def _append(self, record: Record) -> None:
        if not self.is_lost(record.topic):
            self._check(record)
        self.write(record.topic, record.key, record.value)

    def write(self, topic: str, key: str, value: str | None) -> None:
        entries = self.entries.setdefault(topic, [])
        data = None if value is None else value.encode()
        entries.append(Entry(0, len(entries), key.encode(), data))

    def _check(self, record: Record) -> None:
        state = self.state(record.topic)
        if record.value is None and record.key not in state:
            raise Broken(f"a second tombstone of {record.key} in {record.topic}")
        if state.get(record.key) == record.value:
            raise Broken(f"{record.key} has {record.value} already in {record.topic}")
        if record.value is not None:
            version = int(json.loads(record.value)["v"])
            if self.is_strict(record.topic) and version <= self.versions.get(
                (record.topic, record.key), 0
            ):
                raise Broken(f"an older row of {record.key} follows a newer one")
            self.versions[record.topic, record.key] = version

    def is_lost(self, topic: str) -> bool:
        """Whether somebody has deleted the topic, which the capture has not noticed yet."""
        tables = [] if self.definition is None else self.definition.tables
        known = {each.topic: each.topic_id for each in tables}.get(topic)
        return known is not None and self.topics.get(topic) != known

    def is_strict(self, topic: str) -> bool:
        """Whether the topic gets nothing but changes."""
        tables = [] if self.definition is None else self.definition.tables
        is_stream = self.position is not None and self.position.lsn is not None
        return is_stream and any(each.topic == topic and each.is_read for each in tables)

    def check(self) -> None:
        """The topics are the tables, as they were at the position: no part of a transaction."""
        position, definition = self.position, self.definition
        assert position is not None and definition is not None
        assert position.lsn is not None and position.timeline is not None
        rows = self.server.rows_at(position.timeline, position.lsn)
        for table in definition.tables:
            if not table.is_read or self.is_lost(table.topic):
                continue
            expected = {
                f'{{"id":{key}}}': json.dumps(
                    {"id": key, "v": version, "big": big}, separators=(",", ":")
                )
                for (oid, key), (version, big) in rows.items()
                if oid == table.oid
            }
            found = self.state(table.topic)
            if found != expected:
                raise Broken(
                    f"at {position.lsn} of timeline {position.timeline}, topic {table.topic} has "
                    f"{found}, and table {TABLES[table.oid]} {expected}"
                )
