"""The user's interface to a table that follows a topic: a mapping, and its positions.

A look-up never waits for a broker. After an error while following the log, every call raises that
error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeAlias

from drumlin.client import arguments
from drumlin.client.errors import ClientError, RequestTimedOut, translated
from drumlin.client.loops.core_loop import CoreLoop
from drumlin.client.read.offsets import list_offsets
from drumlin.client.table.following import Following
from drumlin.client.table.loading import ISOLATION
from drumlin.client.table.options import Decoder, TableOptions
from drumlin.client.table.rows import Row, Rows
from drumlin.client.topic_partition import TopicPartition
from drumlin.client.write.deliveries import AppendedRange
from drumlin.client.write.open_batch import Delivered
from drumlin.peer.broker_connections import BrokerConnections

if TYPE_CHECKING:
    import pyarrow as pa

    from drumlin.client.write.appender import AppendReport

#: End offsets by partition, or the result of a write.
Until: TypeAlias = "Mapping[Any, int | AppendedRange] | AppendReport | Delivered"
_ROWS_AT_A_TIME: Final = 65_536


class Table(Mapping[Any, Any]):
    """A mapping of a topic's keys to their last values, created by `Client.table`.

    Use the table as a context manager, or `close` it before its client. It is thread-safe. A key
    given as a string stands for its UTF-8 bytes. Iteration shows every key once; whether it shows
    changes made meanwhile is undefined.
    """

    def __init__(
        self,
        thread: CoreLoop,
        connections: BrokerConnections,
        topic: str,
        options: TableOptions,
    ) -> None:
        self.topic = topic
        self._thread = thread
        self._connections = connections
        self._options = options
        self._decoder = Decoder(topic, options.decode)
        self._decode = self._decoder.decode
        self._following = Following(thread, connections, topic, options)

    # -- the mapping -----------------------------------------------------------------------

    def __getitem__(self, key: bytes | str) -> Any:
        name = key if type(key) is bytes else _name_of(key)
        value = self._following.find(name)
        if value is None:
            self._rows()  # raises the error that ended the table
            raise KeyError(key)
        decode = self._decode
        if decode is None:
            return value
        try:
            return decode(value)
        except ValueError as error:
            raise self._decoder.undecodable(name, error) from error

    def __contains__(self, key: object) -> bool:
        return self._rows().find(_name_of(key)) is not None

    def __len__(self) -> int:
        return len(self._rows())

    def __iter__(self) -> Iterator[Any]:
        for row in self._rows():
            yield self._decoder.key(row.key)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, in batches: columns `key`, `value` (binary), `partition` (int32)."""
        from drumlin.client.state.snapshots import schema_of

        schema = schema_of(("key", "value", "partition"), headers=False)
        return _batches(self._rows(), schema)

    def to_arrow(self) -> pa.Table:
        """All rows as one table, with the columns of `to_batches`.

        With decode="utf8" or "json" keys and values are as in `Client.snapshot`; if `decode` is a
        function, it is not applied.

        Raises:
            Undecodable: a key or a value cannot be decoded by `decode`.
        """
        import pyarrow as pa

        from drumlin.client.state.snapshots import schema_of
        from drumlin.client.tables import decoded

        schema = schema_of(("key", "value", "partition"), headers=False)
        found = pa.Table.from_batches(_batches(self._rows(), schema), schema)
        decode = self._options.decode
        return decoded(found, decode if isinstance(decode, str) else None, self.topic)

    @property
    def nbytes(self) -> int:
        """The approximate memory of the rows, excluding rows on disk."""
        return self._rows().nbytes

    def opened(self) -> Future[Table]:
        """A future, done when the table is loaded and exact. Cancelling it closes the table."""
        future: Future[Table] = Future()

        def loaded(done: Future[None]) -> None:
            error = done.exception()
            if not future.set_running_or_notify_cancel():
                self.close()
            elif error is not None:
                future.set_exception(error)
            else:
                future.set_result(self)

        def given_up(done: Future[Table]) -> None:
            if done.cancelled():
                self._following.ask_to_end()

        self._following.loaded.add_done_callback(loaded)
        future.add_done_callback(given_up)
        return future

    # -- progress --------------------------------------------------------------------------

    def wait_until(self, ends: Until, timeout_ms: float | None = None) -> None:
        """Wait until the table has every record before these end offsets, and is exact.

        Args:
            ends: end offsets (exclusive) by partition number or (topic, partition); or the result
                of `Client.append`, its `partitions`, or the result of a writer's `Delivery`.
            timeout_ms: how long to wait; None: without a limit. The table reads records in or
                after an open transaction only when the transaction has ended.

        Raises:
            RequestTimedOut: the table does not reach the end offsets in time.
            ClientError: the table no longer follows the topic: it has failed or is closed.
            TypeError, ValueError: `ends` has no valid end offsets of the table's partitions.
        """
        if self._following.is_own_thread:
            raise ClientError("a callback of a table must not wait for the table")
        future = self._following.waits.wait(self._ends(ends))
        try:
            future.result(None if timeout_ms is None else timeout_ms / 1000)
        except NotYet:
            if not future.done():
                at = self.positions()
                raise RequestTimedOut(
                    f"topic {self.topic!r}: the table is at {_shown(at)} after {timeout_ms} ms"
                ) from None
            raise
        finally:
            self._following.waits.forget(future)

    def wait_until_async(self, ends: Until) -> Future[None]:
        """Like `wait_until`, for asyncio: `await asyncio.wrap_future(table.wait_until_async(...))`.

        Returns:
            A future, whose `result()` raises the errors of `wait_until`. Its callbacks run in the
            table's thread, and block it.

        Raises:
            TypeError, ValueError: `ends` has no valid end offsets of the table's partitions.
        """
        return self._following.waits.wait(self._ends(ends))

    def refresh(self, timeout_ms: float | None = None) -> None:
        """Wait until the table has all records committed before this call.

        Raises:
            RequestTimedOut, ClientError: as from `wait_until`.
        """
        self._rows()
        places = self.positions()
        with translated():
            found = self._thread.run(
                list_offsets(self._connections, dict.fromkeys(places, "latest"), ISOLATION)
            )
        self.wait_until({place: each.offset for place, each in found.items()}, timeout_ms)

    def positions(self) -> dict[TopicPartition, int]:
        """The offset (exclusive) of each partition up to which the table is known to be exact."""
        self._rows()
        return self._following.waits.reached()

    def lag(self) -> dict[TopicPartition, int]:
        """The number of offsets between `positions` and the end offsets of the last fetches."""
        positions = self.positions()
        ends = self._following.log_ends()
        return {place: max(ends.get(place, at) - at, 0) for place, at in positions.items()}

    # -- the end ---------------------------------------------------------------------------

    def close(self) -> None:
        """Stop following, and free the rows. A second call does nothing."""
        self._following.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<drumlin.Table of topic {self.topic!r}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Table belongs to its client and its thread")

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        """Compare by identity, as tables change by themselves; compare rows with `dict(table)`."""
        return self is other

    def _rows(self) -> Rows:
        following = self._following
        if following.error is not None:
            raise following.error.with_traceback(None)
        rows = following.rows
        if rows is None:
            raise ClientError(f"the table of topic {self.topic!r} is not loaded yet")
        return rows

    def _ends(self, ends: Until) -> dict[TopicPartition, int]:
        known = self.positions()
        if isinstance(ends, Delivered):
            self._check_topic(ends.topic)
            ends = {ends.partition: ends.offset + 1}
        elif not isinstance(ends, Mapping):
            self._check_topic(getattr(ends, "topic", None))
            ends = ends.partitions
        found = {}
        for name, given in ends.items():
            place = name if isinstance(name, tuple) else (self.topic, name)
            end = given.end_offset if isinstance(given, AppendedRange) else given
            place = TopicPartition(*place)
            if place not in known:
                raise ValueError(f"{place}: the table has {', '.join(map(str, known))}")
            found[place] = arguments.whole_number(f"the end of {place}", end, 0, 2**63 - 1)
        return found

    def _check_topic(self, topic: object) -> None:
        if topic != self.topic:
            raise ValueError(f"topic {arguments.shown(topic)}: the table is of {self.topic!r}")


def _name_of(key: object) -> bytes:
    if isinstance(key, bytes):
        return key
    if isinstance(key, str):
        return key.encode()
    raise TypeError(f"key {arguments.shown(key)}: expected bytes or a string")


def _batches(rows: Iterable[Row], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    waiting: list[Row] = []
    for row in rows:
        waiting.append(row)
        if len(waiting) == _ROWS_AT_A_TIME:
            yield pa.record_batch(list(map(list, zip(*waiting, strict=True))), schema=schema)
            waiting.clear()
    if waiting:
        yield pa.record_batch(list(map(list, zip(*waiting, strict=True))), schema=schema)


def _shown(positions: Mapping[TopicPartition, int]) -> str:
    return ", ".join(f"{place}: {offset}" for place, offset in positions.items())
