"""The calls of a `Client` that follow a topic as a mapping."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING
from weakref import WeakSet

from drumlin.client.arguments import STATE_BYTES
from drumlin.client.calls import Calls
from drumlin.client.loops.core_loop import CoreLoop
from drumlin.client.needs_arrow import needing_arrow
from drumlin.client.write.producer import Producer
from drumlin.peer.broker_connections import BrokerConnections

if TYPE_CHECKING:
    from drumlin.client.table.options import BeyondMemory, Change, DecodeValue, WhenLost
    from drumlin.client.table.table import Table


class TableCalls(Calls):
    """The calls that return a table, which follows its topic."""

    def __init__(
        self, thread: CoreLoop, connections: BrokerConnections, producer: Producer
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
        """A compacted topic as a mapping of keys to their last values, which follows the topic.

        It holds committed records only. Records without a key are left out.

        Args:
            topic: the topic's name.
            decode: decodes values at each look-up, as text ("utf8"), as JSON ("json"), or with a
                function of their bytes. With "utf8" and "json" keys are text. None: bytes.
            on_change: called with a `Change` for each key that is added, changed or deleted after
                the table was loaded: by one thread, in the order of offsets within a partition,
                after the change is visible. If it raises, the table stops following: every later
                call raises `FollowingEnded`.
            partitions: the numbers of the partitions; by default all, including later ones.
            when_lost: the reaction if the next records were deleted before they were read, or the
                topic was recreated: "reload" loads the table again and shows the old rows
                meanwhile; with "raise" the next call raises.
            memory_bytes: the memory limit for rows, which may be exceeded twofold while loading.
            beyond_memory: where larger tables go: into a file ("disk"), or an error ("raise").
            folder: the folder of that file; None: the system's folder for temporary files.

        Returns:
            A table that is exact: it has all records committed before this call.

        Raises:
            UnknownTopic: there is no such topic or partition.
            StateNotExact: several loads may have missed deletions, as a cleaner removes tombstones
                faster than the log is read.
            EqualKeys: two partitions have a value for the same key.
            TableTooLarge: the rows exceed `memory_bytes`, and `beyond_memory` is "raise".
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
