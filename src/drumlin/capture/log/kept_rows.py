"""The last row of every key of some topics, on this machine's disk while a connection lasts.

A topic's rows are loaded from the topic when they are needed, and updated with each record written.
The file does not outlive the process. Memory stays bounded, however large the topics are.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from drumlin.capture.errors import CaptureError
from drumlin.capture.values.form import Form, PlainJson
from drumlin.capture.values.record import Data

if TYPE_CHECKING:
    from drumlin.client.client import Client

_BATCH: Final = 1000
_CACHE_KIB: Final = 16 << 10
_TABLE: Final = """
CREATE TABLE rows (topic TEXT, key, value, PRIMARY KEY (topic, key)) WITHOUT ROWID
"""


class TopicRows:
    """Rows by topic and key. Must be closed."""

    def __init__(self, form: Form | None = None) -> None:
        self._form: Form = PlainJson() if form is None else form
        # SQLite deletes an unnamed (temporary) database when it is closed or the process ends.
        self._database = sqlite3.connect("", isolation_level=None)
        for statement in (
            "PRAGMA journal_mode = OFF",
            "PRAGMA synchronous = OFF",
            f"PRAGMA cache_size = -{_CACHE_KIB}",
            _TABLE,
            "BEGIN",
        ):
            self._database.execute(statement)
        self._topics: set[str] = set()

    def close(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._database.close()

    def load(self, client: Client, topic: str) -> None:
        """Load a topic's committed rows, and keep them up to date from now on."""
        self._database.execute("DELETE FROM rows WHERE topic = ?", (topic,))
        for records in client.read_records(topic, isolation="read_committed"):
            for record in records:
                if record.key is not None:
                    try:
                        self.put(topic, *self._form.read(record.key, record.value))
                    except ValueError as error:
                        raise CaptureError(
                            f"topic {topic}, partition {record.partition}, offset {record.offset}: "
                            f"no record of a capture of the form {self._form.name} ({error}): "
                            "somebody else has written to this topic: delete it, and it is made "
                            "again with the rows of its table"
                        ) from None
        self._topics.add(topic)

    def copy_keys(self, topic: str, name: str) -> None:
        """Copy the keys of a topic to another name, replacing its rows."""
        self._database.execute("DELETE FROM rows WHERE topic = ?", (name,))
        self._database.execute(
            "INSERT INTO rows SELECT ?, key, '' FROM rows WHERE topic = ?", (name, topic)
        )

    def forget(self, topic: str) -> None:
        self._database.execute("DELETE FROM rows WHERE topic = ?", (topic,))
        self._topics.discard(topic)

    def keeps(self, topic: str) -> bool:
        return topic in self._topics

    def get(self, topic: str, key: Data) -> Data | None:
        found = self._database.execute(
            "SELECT value FROM rows WHERE topic = ? AND key = ?", (topic, key)
        ).fetchone()
        return None if found is None else found[0]

    def put(self, topic: str, key: Data, value: Data | None) -> None:
        if value is None:
            self._database.execute("DELETE FROM rows WHERE topic = ? AND key = ?", (topic, key))
        else:
            self._database.execute("REPLACE INTO rows VALUES (?, ?, ?)", (topic, key, value))

    def keys(self, topic: str) -> Iterator[Data]:
        """All keys in order; a key that is deleted during the iteration may be missing."""
        last: Data = ""  # less than any key: text precedes bytes
        while True:
            found = self._database.execute(
                "SELECT key FROM rows WHERE topic = ? AND key > ? ORDER BY key LIMIT ?",
                (topic, last, _BATCH),
            ).fetchall()
            if not found:
                return
            for (key,) in found:
                yield key
            last = found[-1][0]
