"""The calls of a `Client` that follow a topic as a mapping."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING
from weakref import WeakSet

from drumlin.client.arguments import STATE_BYTES
from drumlin.client.calls import Calls
from drumlin.client.loop_thread import LoopThread
from drumlin.client.needs_arrow import needing_arrow
from drumlin.client.write.producer import Producer
from drumlin.peer.broker_connections import BrokerConnections

if TYPE_CHECKING:
    from drumlin.client.table.options import BeyondMemory, Change, DecodeValue, WhenLost
    from drumlin.client.table.table import Table


class TableCalls(Calls):
    """From a log to a table that stays as the log is."""

    def __init__(
        self, thread: LoopThread, connections: BrokerConnections, producer: Producer
    ) -> None:
        super().__init__(thread, connections, producer)
        self._tables: WeakSet[Table] = WeakSet()

    def table(
        self,
        topic: str,
        *,
        decode: DecodeValue | None = None,
        on_change: Callable[[Change], object] | None = None,
        partitions: Sequence[int] | None = None,
        when_lost: WhenLost = "reload",
        memory_bytes: int = STATE_BYTES,
        beyond_memory: BeyondMemory = "disk",
        folder: str | None = None,
    ) -> Table:
        """A compacted topic as a mapping of keys to their last values, which then follows.

        It holds committed records only. Records without a key are left out.

        Args:
            topic: the topic's name.
            decode: values as text ("utf8"), as what JSON says ("json"), or as what a function makes
                of their bytes, at each look-up. With "utf8" and "json" keys are text. None: bytes.
            on_change: called with a `Change` for each key that gets a value, another one, or none,
                from the time when the table is loaded: by one thread, in the order of offsets of
                each partition, after the change shows. If it raises, the table is not followed
                further: every call raises `FollowingEnded` from then on.
            partitions: their numbers; all by default, also those that are added later.
            when_lost: where the log does not tell what came next, as records were deleted,
                or the topic was made again: "reload", which shows the old rows meanwhile; or
                "raise" by the next call.
            memory_bytes: what rows may take. While the table is loaded it can be twice as much.
            beyond_memory: then they go into a file ("disk"), or the table fails ("raise").
            folder: where that file is made; None: where temporary files are.

        Returns:
            A table that is exact: it has all that was committed when this was called.

        Raises:
            UnknownTopic: there is no such topic or partition.
            StateNotExact: deletions may have been missed, several times, as a cleaner removes
                tombstones faster than the log is read.
            EqualKeys: two partitions have a value for the same key.
            TableTooLarge: as `beyond_memory` says.
            TypeError, ValueError: an argument cannot have this value.
        """
        return self.table_async(
            topic,
            decode=decode,
            on_change=on_change,
            partitions=partitions,
            when_lost=when_lost,
            memory_bytes=memory_bytes,
            beyond_memory=beyond_memory,
            folder=folder,
        ).result()

    def table_async(
        self,
        topic: str,
        *,
        decode: DecodeValue | None = None,
        on_change: Callable[[Change], object] | None = None,
        partitions: Sequence[int] | None = None,
        when_lost: WhenLost = "reload",
        memory_bytes: int = STATE_BYTES,
        beyond_memory: BeyondMemory = "disk",
        folder: str | None = None,
    ) -> Future[Table]:
        """`table` without waiting: `await asyncio.wrap_future(client.table_async(...))`.

        Returns:
            A future: its `result()` is the table, or raises what `table` does.

        Raises:
            TypeError, ValueError: an argument cannot have this value.
        """
        with needing_arrow():
            from drumlin.client.table.options import TableOptions
            from drumlin.client.table.table import Table

        options = TableOptions(
            partitions=partitions,
            decode=decode,
            on_change=on_change,
            memory_bytes=memory_bytes,
            beyond_memory=beyond_memory,
            folder=folder,
            when_lost=when_lost,
        )
        self._thread.check_may_wait()
        table = Table(self._thread, self._connections, topic, options)
        self._tables.add(table)
        return table.opened()

    def _close_tables(self) -> None:
        for each in list(self._tables):
            each.close()
