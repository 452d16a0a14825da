"""The thread of a table: loads it, follows the log, and loads it again when necessary.

Rows become visible to the user once they are exact, so the user's view never goes back. Only this
thread changes rows; other threads read the visible rows, and may ask this thread to end.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final

from drumlin.background import shielded
from drumlin.client.admin.committed_offsets import OffsetAndMetadata
from drumlin.client.consumer.engine import ConsumerEngine, Readable
from drumlin.client.consumer.fetching.decoder import decode
from drumlin.client.consumer.options import ConsumerOptions
from drumlin.client.errors import (
    ClientError,
    EqualKeys,
    FollowingEnded,
    LogEndsEarly,
    TableTooLarge,
    UnknownTopic,
    translated,
)
from drumlin.client.loops.core_loop import CoreLoop
from drumlin.client.table.disk_rows import DiskRows
from drumlin.client.table.exactness import Exactness
from drumlin.client.table.loading import (
    ISOLATION,
    OVERTAKEN,
    PASSES,
    PAUSE_S,
    Loader,
    LoadsInVain,
    TopicNow,
    monotonic_ms,
)
from drumlin.client.table.options import Change, Decoder, TableOptions
from drumlin.client.table.rows import MemoryRows, Rows
from drumlin.client.table.waits import Waits
from drumlin.client.topic_partition import TopicPartition
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.retry import Deadline
from drumlin.records.batch.gaps import stretch_of
from drumlin.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    import pyarrow as pa

#: The interval of checks for a deleted or recreated topic, and the poll timeout.
_LOOK_S: Final = 3.0
_POLL_MS: Final = 500
_INTERRUPT_S: Final = 0.05
_BUFFER_BYTES: Final = 32 << 20
_NO_OFFSET: Final = -1
_NO_ROWS: Final[dict[bytes, bytes]] = {}
_COLUMNS: Final = ("key", "value", "offset")
_OPTIONS: Final = ConsumerOptions(
    commit_interval_ms=None, isolation=ISOLATION, columns=_COLUMNS, buffer_bytes=_BUFFER_BYTES
)


class Following:
    """The thread of one table.

    `rows` are visible to the user; None before the table is loaded, and when it has ended. `find`
    is their method, kept here so that a look-up does not have to fetch it from `rows`.
    """

    def __init__(
        self,
        thread: CoreLoop,
        connections: BrokerConnections,
        topic: str,
        options: TableOptions,
    ) -> None:
        self._thread = thread
        self._connections = connections
        self._topic = topic
        self._options = options
        self._loader = Loader(thread, connections, topic)
        self._decoder = Decoder(topic, options.decode)
        self._states: dict[TopicPartition, Exactness] = {}
        self._engine: ConsumerEngine | None = None
        self._working: Rows = MemoryRows(topic)
        self._topic_now: TopicNow | None = None
        self._looked_s = 0.0
        self._in_vain = LoadsInVain()
        self._ends = threading.Event()
        #: Set when the thread only has to free its resources.
        self._has_ended = threading.Event()
        self.waits = Waits()
        #: A future that is done when the table is visible, or has failed.
        self.loaded: Future[None] = Future()
        self.rows: Rows | None = None
        self.find: Callable[[bytes], bytes | None] = _NO_ROWS.get
        self.error: BaseException | None = None
        name = f"drumlin-table {topic}"
        self._own = threading.Thread(target=self._run, name=name, daemon=True)
        self._own.start()

    def ask_to_end(self) -> None:
        """Stop the thread, without waiting for its end."""
        self._ends.set()
        if not self._has_ended.is_set():
            self._thread.interrupt(self._own)

    def end(self) -> None:
        """Stop the thread, and wait for its end, unless called in a callback of the table.

        Raises:
            ClientError: in a callback of the client, which would wait for itself.
        """
        self._ends.set()
        if self.is_own_thread:
            return
        self._thread.check_may_wait()
        # It may begin a request just after it was interrupted.
        while not self._has_ended.wait(_INTERRUPT_S):
            self._thread.interrupt(self._own)
        self._own.join()

    @property
    def is_own_thread(self) -> bool:
        """Whether the caller is a callback in this thread, which must not wait for the thread."""
        return threading.current_thread() is self._own

    def log_ends(self) -> dict[TopicPartition, int]:
        """The logs' end offsets, as of the last fetches."""
        engine = self._engine
        if engine is None:
            return {}

        async def ends() -> dict[TopicPartition, int]:
            return {each.place: each.end_offset for each in engine.positions}

        return {place: end for place, end in self._thread.run(ends()).items() if end >= 0}

    # -- the thread ------------------------------------------------------------------------

    def _run(self) -> None:
        error: BaseException = ClientError(f"this table of topic {self._topic!r} is closed")
        try:
            with translated():
                self._load()
                while not self._ends.is_set():
                    self._follow()
        except BaseException as caught:  # noqa: BLE001 - raised by each of the user's calls
            if not self._ends.is_set():
                error = caught
        self._has_ended.set()
        self.error = error
        self._stop_engine()
        for rows in (self.rows, self._working):
            if rows is not None:
                rows.close()
        self._make_visible(None)
        self._working = MemoryRows(self._topic)
        self.waits.fail(error)
        if not self.loaded.done():
            self.loaded.set_exception(error)

    def _follow(self) -> None:
        """Do one step; load again if the next records were deleted."""
        try:
            with translated():
                self._step()
            if time.monotonic() - self._looked_s >= _LOOK_S:
                self._look_at_topic()
        except (EqualKeys, *OVERTAKEN) as error:
            if self._look_at_topic():
                return
            if isinstance(error, EqualKeys) or self._options.when_lost == "raise":
                raise
            self._in_vain.check(error)
            self._load()

    def _step(self) -> None:
        engine = self._engine
        assert engine is not None
        found = self._thread.run(engine.next(Deadline(_POLL_MS), comes_back=True))
        assert self._topic_now is not None
        if engine.topic_id(self._topic) not in (None, self._topic_now.topic_id):
            self._look_at_topic()
            return
        if not isinstance(found, Readable):
            return
        piece, position = found
        state = self._states[piece.place]
        for each in decode(piece, position, _OPTIONS):
            if each.batch is not None:
                self._apply(each.batch, piece.place.partition)
        state.read_to(piece.end_offset, piece.ended_s * 1000)
        if stretch_of(piece.records, position, piece.end_offset).gap_offset is not None:
            self._judge(state, piece.fetched_of_epoch)
        self._thread.call_soon(lambda: engine.given(piece, piece.end_offset, is_last=True))
        self._show()

    def _judge(self, state: Exactness, of_epoch: int) -> None:
        """Ask the leader whether the gap in the last read affects exactness."""
        while not self._ends.is_set():
            try:
                with translated():
                    looks = self._loader.look([state])
                break
            except PASSES:
                self._ends.wait(PAUSE_S)
        else:
            return
        place = state.place
        state.met_gap(looks.facts[place], looks.ends[place], of_epoch, monotonic_ms())

    def _apply(self, batch: pa.RecordBatch, partition: int) -> None:
        rows, tell = self._working, self._options.on_change
        columns = [batch.column(name).to_pylist() for name in _COLUMNS]
        for key, value, offset in zip(*columns, strict=True):
            if key is None:
                continue
            gone = value is None
            old = rows.remove(key, partition) if gone else rows.put(key, value, partition)
            if tell is not None and rows is self.rows:
                self._tell(key, old, value, partition, offset)
        self._bound_memory()

    def _tell(
        self, key: bytes, old: bytes | None, new: bytes | None, partition: int, offset: int
    ) -> None:
        tell = self._options.on_change
        if tell is None or (old is None and new is None):
            return
        decoder = self._decoder
        values = (decoder.value(key, old), decoder.value(key, new))
        try:
            tell(Change(decoder.key(key), *values, partition, offset))
        except Exception as error:
            where = f"topic {self._topic!r} partition {partition} offset {offset}"
            raise FollowingEnded(f"{where}: on_change raised {error!r}") from error

    def _bound_memory(self) -> None:
        rows, options = self._working, self._options
        if rows.nbytes <= options.memory_bytes or isinstance(rows, DiskRows):
            return
        if options.beyond_memory == "raise":
            raise TableTooLarge(
                f"the table of topic {self._topic!r} takes more than {options.memory_bytes} bytes"
            )
        self._working = DiskRows.of(rows, self._topic, options.folder)
        if self.rows is rows:
            self._make_visible(self._working)

    def _make_visible(self, rows: Rows | None) -> None:
        self.rows = rows
        self.find = _NO_ROWS.get if rows is None else rows.find

    def _show(self) -> None:
        """Make rows visible that have become exact."""
        exact = {place: each.position for place, each in self._states.items() if each.is_exact}
        if self._working is not self.rows:
            if len(exact) < len(self._states):
                return
            old = self.rows
            self._make_visible(self._working)
            self.waits.restart(exact)
            self._in_vain.end()
            if not self.loaded.done():
                self.loaded.set_result(None)
            if old is not None and self._options.on_change is not None:
                self._tell_difference(old, self._working)
        self.waits.tell(exact)

    def _tell_difference(self, old: Rows, new: Rows) -> None:
        for key, value, partition in new:
            before = old.find(key)
            if before != value:
                self._tell(key, before, value, partition, _NO_OFFSET)
        for key, value, partition in old:
            if new.find(key) is None:
                self._tell(key, value, None, partition, _NO_OFFSET)

    # -- loading ---------------------------------------------------------------------------

    def _load(self) -> None:
        """Load the state, and follow the log from there."""
        self._stop_engine()
        while not self._ends.is_set():
            try:
                with translated():
                    self._load_once()
                break
            except (*OVERTAKEN, *PASSES) as error:
                if self.rows is None and isinstance(error, PASSES):
                    raise
                self._in_vain.check(error)
            self._ends.wait(PAUSE_S)
        self._show()

    def _load_once(self) -> None:
        def check_open() -> None:
            if self._ends.is_set():
                raise ClientError(f"the table of topic {self._topic!r} was closed meanwhile")

        def take(batch: pa.RecordBatch) -> None:
            check_open()
            self._working.load(batch)
            self._bound_memory()

        options = self._options
        while True:
            topic_now, self._working = self._loader.describe(), MemoryRows(self._topic)
            try:
                states = self._loader.load(
                    options.partitions, options.memory_bytes, take, check_open
                )
            except (EqualKeys, LogEndsEarly):
                if self._loader.describe().topic_id == topic_now.topic_id:
                    raise
            # Otherwise some of the rows may be of a topic that was deleted meanwhile.
            if self._loader.describe().topic_id == topic_now.topic_id:
                break
        self._topic_now, self._looked_s, self._states = topic_now, time.monotonic(), states

        async def start() -> None:
            self._engine = _started(self._connections, states)

        self._thread.run(start())

    def _look_at_topic(self) -> bool:
        """Load again if the topic was recreated or has more partitions; returns whether it did.

        Raises:
            UnknownTopic: the topic was deleted; or it was recreated, and `when_lost` is "raise".
        """
        self._looked_s = time.monotonic()
        try:
            with translated():
                now = self._loader.describe()
        except PASSES:
            return False
        before, self._topic_now = self._topic_now, now
        if before is None or now == before:
            return False
        if now.topic_id != before.topic_id and self._options.when_lost == "raise":
            message = f"topic {self._topic!r} was deleted, and made again"
            raise UnknownTopic(message, ErrorCode.unknown_topic_id)
        if now.topic_id != before.topic_id:
            # Offsets of the old topic are meaningless in the new one.
            self.waits.restart(dict.fromkeys(self._states, 0))
        elif self._options.partitions is not None:
            return False
        self._load()
        return True

    def _stop_engine(self) -> None:
        engine, self._engine = self._engine, None
        if engine is None or not self._thread.is_running:
            return

        async def stop() -> None:
            await engine.stop_polling()
            await engine.shut_down(leaves=False, timeout_ms=0)

        async def stopped() -> None:
            await shielded(asyncio.ensure_future(stop()))  # even if this thread is interrupted

        with contextlib.suppress(ClientError):
            self._thread.run(stopped())


def _started(
    connections: BrokerConnections, states: Mapping[TopicPartition, Exactness]
) -> ConsumerEngine:
    """The fetch engine, created in the event loop: each partition continues at its position."""
    engine = ConsumerEngine(connections, None, None, states.keys(), _OPTIONS)
    for place, state in states.items():
        engine.seek(place, OffsetAndMetadata(state.position, "", state.claim.leader_epoch))
    return engine
