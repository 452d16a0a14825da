"""The records that copy a table to its topic, of either kind of database.

A topic that has records already gets what differs: rows that are other ones in the table, and
deletes of those that the table has no more. So a copy that is begun again does no harm.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from drumlin.capture.errors import CaptureError
from drumlin.capture.log.kept_rows import TopicRows
from drumlin.capture.messages.pgoutput import Value
from drumlin.capture.values.form import Form
from drumlin.capture.values.record import Op, Record
from drumlin.capture.values.rows import RowFormat

if TYPE_CHECKING:
    from drumlin.client.client import Client


def copy_table(
    client: Client,
    topic: str,
    form: Form,
    shape: RowFormat,
    found: Iterable[Sequence[Value]],
    send: Callable[[Record], None],
) -> int:
    """Send what the topic needs to hold the rows that were `found`; return their number.

    Raises:
        CaptureError: a row has no key, or the topic has records of another program.
        ClientError: the topic cannot be read.
    """
    count = 0
    with contextlib.closing(TopicRows(form)) as rows:
        if _has_records(client, topic):
            rows.load(client, topic)
        for row in found:
            key, value = shape.key(row), shape.value(row)
            if key is None:
                raise CaptureError(f"table {shape.table}: a row without a key")
            count += 1
            if rows.keeps(topic):
                before = rows.get(topic, key)
                rows.put(topic, key, None)
                if before == value:
                    continue
            send(Record(topic, key, value, None, Op.READ))
        if rows.keeps(topic):
            for key in rows.keys(topic):
                send(Record(topic, key, None, None, Op.DELETE))
    return count


def _has_records(client: Client, topic: str) -> bool:
    ends = client.offsets(topic)
    return any(ends[each] > start for each, start in client.offsets(topic, "earliest").items())
