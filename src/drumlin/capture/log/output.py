"""Writes records to Kafka in transactions, each together with the position that it reaches.

A capture has one producer: a new producer fences its predecessor. After an error a producer writes
nothing more: its open transaction is aborted, and a new producer takes over.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from drumlin.capture.errors import CaptureError, CaptureRefused
from drumlin.capture.log.names import Names, name_of, own_topic_pattern
from drumlin.capture.log.position import (
    DEFINITION_PARTITION,
    PARTITIONS,
    POSITION_PARTITION,
    Definition,
    Position,
    decode_definition,
    decode_position,
)
from drumlin.capture.values.record import Columns, Data, Headers, Record, shown
from drumlin.client.errors import ClientError
from drumlin.client.needs_arrow import has_arrow
from drumlin.client.topic_partition import TopicPartition

if TYPE_CHECKING:
    from drumlin.client.client import Client
    from drumlin.client.transactions.transaction import Transaction
    from drumlin.client.write.stream_appender import StreamAppender
    from drumlin.client.write.writer import Writer

_BATCH_BYTES: Final = 256 << 10
_BUFFER_BYTES: Final = 8 << 20
#: The number of rows that are appended together; with Arrow, as columns.
_ROWS_MAX: Final = 2000
#: Transactions of up to this many rows are written row by row, which is faster for so few.
_FEW: Final = 64
_FIRST_LOOK: Final = 64
_LIMIT: Final = "max.message.bytes"
#: The size of a batch of one record without its key and value.
_OVERHEAD: Final = 128
#: Rows smaller than this (in characters) are not checked: the broker may still reject them.
_SURELY_SMALL: Final = 128 << 10


class Output:
    """The producer of one capture. Creating it fences its predecessor."""

    def __init__(self, client: Client, names: Names) -> None:
        self._client = client
        self._names = names
        self._transaction: Transaction = client.transaction(names.transactional_id)
        self._writers: dict[str, Writer] = {}
        self._appender: StreamAppender | None = None
        self._limits: dict[str, int] = {}
        self._has_columns = has_arrow()
        self._rows: list[Record] = []  # not yet passed to the writers
        self._rows_bytes = 0
        #: The records and bytes that wait for the next commit.
        self.record_count = 0
        self.size_bytes = 0
        self._flushed_bytes = 0

    def send(self, record: Record) -> None:
        """Add a record to the open transaction.

        Raises:
            CaptureError: the record is larger than the topic allows.
            ClientError: the transaction can only be aborted.
        """
        size_bytes = len(record.key) + len(record.value or "")
        if size_bytes > _SURELY_SMALL:
            self._check_size(record)
        self._rows.append(record)
        self._rows_bytes += size_bytes
        self.record_count += 1
        self.size_bytes += size_bytes
        if len(self._rows) >= _ROWS_MAX or self._rows_bytes >= _BATCH_BYTES:
            self._hand_over(self._has_columns)

    def append(self, columns: Columns) -> None:
        """Add records to the open transaction, as `send` does. None of them may be large.

        Raises:
            ClientError: the transaction can only be aborted.
        """
        self._hand_over(as_columns=True)
        self.record_count += len(columns.keys)
        self.size_bytes += columns.keys.nbytes + columns.values.nbytes
        with self._explaining():
            self._append(columns)

    def commit(self, position: Position, definition: Definition | None = None) -> None:
        """Commit all sent records together with the position they reach; durable on return."""
        from drumlin import lowlevel

        topic, name = self._names.topic, self._names.name
        if definition is not None:
            self._write(topic, name, definition.encode(), None, DEFINITION_PARTITION)
        self._write(topic, name, position.encode(), None, POSITION_PARTITION)
        is_begun = self._appender is not None
        self._hand_over(is_begun or (self._has_columns and len(self._rows) > _FEW))
        if self._appender is not None:
            with self._explaining():
                self._appender.finish()
        self._transaction.commit()
        self._transaction = lowlevel.following(self._transaction)
        self._writers.clear()
        self._appender = None
        self.record_count = self.size_bytes = self._flushed_bytes = 0

    def abort(self) -> None:
        """Abort the open transaction. If that fails, the broker aborts it after its timeout."""
        with contextlib.suppress(ClientError):
            self._transaction.abort()

    def read_definition(self) -> Definition | None:
        """The last committed definition, even if another process has written it."""
        return read_definition(self._client, self._names)

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str | None]:
        """The ids of those topics that exist."""
        return topic_ids(self._client, topics)

    def read_position(self) -> Position | None:
        """The last committed position, even if another process has written it."""
        return read_position(self._client, self._names)

    def _check_size(self, record: Record) -> None:
        size_bytes = _OVERHEAD + _size(record.key) + _size(record.value or b"")
        limit = self._limits.get(record.topic, 0)
        if size_bytes > limit:  # the limit may have been raised since
            configs = self._client.topic_configs(record.topic)
            limit = self._limits[record.topic] = int(configs[_LIMIT].value or 0)
        if size_bytes > limit:
            raise CaptureError(
                f"topic {record.topic}: the row with the key {shown(record.key)} takes "
                f"{size_bytes:,} bytes, and {_LIMIT} is {limit:,}: drumlin configs alter "
                f"topic {record.topic} --set {_LIMIT}={2 * size_bytes}"
            )

    def _hand_over(self, as_columns: bool) -> None:
        """Write the rows as columns or one by one: to keep order, never both in a transaction."""
        rows, self._rows, self._rows_bytes = self._rows, [], 0
        if not as_columns:
            for topic, key, value, time_ms, _, _, headers in rows:
                self._write(topic, key, value, time_ms, headers=headers)
            if self.size_bytes - self._flushed_bytes >= _BUFFER_BYTES:
                self._flush()
        elif rows:
            with self._explaining():
                self._append(_columns(rows))

    def _flush(self) -> None:
        """Flush the writers' buffers, as with many topics they would be large in total."""
        self._flushed_bytes = self.size_bytes
        for writer in self._writers.values():
            with self._explaining():
                writer.flush()

    def _append(self, columns: Columns) -> None:
        import pyarrow as pa

        from drumlin import lowlevel

        if self._appender is None:
            self._appender = lowlevel.stream_appender(
                self._transaction,
                encoding=lowlevel.EncodingRules(
                    batch_bytes=_BATCH_BYTES, window_bytes=_BUFFER_BYTES
                ),
                delivery=lowlevel.DeliveryRules(buffer_bytes=_BUFFER_BYTES),
            )
        topic, keys, values, times, headers = columns
        topics = topic if isinstance(topic, pa.Array) else pa.repeat(topic, len(keys))
        arrays = [topics, keys, values, times]
        names = ["topic", "key", "value", "timestamp"]
        if any(headers):  # either all rows of a capture have headers, or none
            arrays.append(_header_column(headers))
            names.append("headers")
        self._appender.add(pa.RecordBatch.from_arrays(arrays, names))

    @contextlib.contextmanager
    def _explaining(self) -> Iterator[None]:
        from drumlin import lowlevel

        try:
            yield
        except ClientError as error:
            raise lowlevel.fate(self._transaction, error) or error from error

    def _write(
        self,
        topic: str,
        key: Data,
        value: Data | None,
        time_ms: int | None,
        partition: int | None = None,
        headers: Headers = (),
    ) -> None:
        writer = self._writers.get(topic)
        if writer is None:
            writer = self._writers[topic] = self._transaction.writer(
                topic, batch_bytes=_BATCH_BYTES, buffer_bytes=_BUFFER_BYTES
            )
        try:
            writer.send(value, key=key, timestamp=time_ms, partition=partition, headers=headers)
        except ClientError as error:
            raise self._explained(writer, error) from error

    def _explained(self, writer: Writer, error: ClientError) -> ClientError:
        """The error of the earlier record that made the writer reject all further ones."""
        from drumlin import lowlevel

        try:
            writer.flush()
        except ClientError as failure:
            error = failure
        return lowlevel.fate(self._transaction, error) or error


def create_own_topic(client: Client, names: Names) -> None:
    """Create the capture's position topic, if it does not exist."""
    client.create_topic(
        names.topic, PARTITIONS, configs={"cleanup.policy": "compact"}, if_not_exists=True
    )


def has_own_topic(client: Client, names: Names) -> bool:
    """Whether the capture's position topic exists."""
    from drumlin import lowlevel

    return names.topic in lowlevel.look_up_topics(client, [names.topic]).found


def topic_ids(client: Client, topics: Iterable[str]) -> dict[str, str | None]:
    """The ids of those topics that exist; None if the cluster has no ids, or cannot answer now."""
    from drumlin import lowlevel
    from drumlin.wire.error_codes import ErrorCode

    found, refused = lowlevel.look_up_topics(client, sorted(set(topics)))
    ids = {name: each.topic_id for name, each in found.items()}
    unsure = [
        name for name, code in refused.items() if code is not ErrorCode.unknown_topic_or_partition
    ]
    return ids | dict.fromkeys(unsure)


def read_position(client: Client, names: Names) -> Position | None:
    """The last committed position; None: there is no capture of this name."""
    found = _last_value(client, names, POSITION_PARTITION)
    return None if found is None else decode_position(found)


def read_definition(client: Client, names: Names) -> Definition | None:
    """The last committed definition; None: there is no capture of this name."""
    found = _last_value(client, names, DEFINITION_PARTITION)
    return None if found is None else decode_definition(found)


def check_own(client: Client, names: Names, topics: Iterable[str]) -> None:
    """
    Raises:
        CaptureRefused: another capture writes to one of the topics. This capture would delete its
            rows, as they are not in the table.
    """
    wanted = set(topics)
    for other in client.list_topics(own_topic_pattern()):
        if other != names.topic:
            definition = read_definition(client, Names(name_of(other)))
            if definition is None:
                continue
            for topic in definition.topics:
                if topic in wanted:
                    raise CaptureRefused(
                        f"topic {topic} is written by capture {name_of(other)} (of database "
                        f"{definition.database}): take another --prefix, or the --name of that "
                        "one, or `drumlin capture remove` it"
                    )


def _columns(rows: Sequence[Record]) -> Columns:
    import pyarrow as pa

    topics, keys, values, times, _, _, headers = zip(*rows, strict=True)
    data = pa.binary()
    arrays = pa.array(topics, pa.string()), pa.array(keys, data), pa.array(values, data)
    return Columns(*arrays, pa.array(times, pa.int64()), headers)


def _header_column(headers: Sequence[Headers]) -> Any:
    import pyarrow as pa

    # Rows of a transaction share the same headers.
    known = {each: [{"key": key, "value": value} for key, value in each] for each in set(headers)}
    type_ = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    return pa.array([known[each] for each in headers], type_)


def _size(data: Data) -> int:
    return len(data if isinstance(data, bytes) else data.encode())


def _last_value(client: Client, names: Names, partition: int) -> bytes | None:
    """The value of the partition's last committed record, searched for backwards from the end."""
    place = TopicPartition(names.topic, partition)
    first = client.list_offsets({place: "earliest"})[place].offset
    end = client.list_offsets({place: "latest"}, isolation="read_committed")[place].offset
    count = _FIRST_LOOK
    while end > first:
        start = max(first, end - count)
        last = None
        for records in client.read_records(
            names.topic,
            [partition],
            start={partition: start},
            end={partition: end},
            isolation="read_committed",
        ):
            last = records[-1].value
        if last is not None or start == first:
            return last
        count *= 8
    return None
