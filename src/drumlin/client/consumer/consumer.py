"""The consumer as its user sees it: one thread polls, everything else runs in the client's loop."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeVar

from drumlin.client.admin.committed_offsets import GroupMetadata, OffsetAndMetadata, to_commit
from drumlin.client.consumer.engine import ConsumerEngine, Readable
from drumlin.client.consumer.fetching.fetch_buffer import Piece
from drumlin.client.consumer.idle import IdleDeadline
from drumlin.client.consumer.membership.membership import Duty, DutyKind
from drumlin.client.consumer.offsets.start_offsets import Reset
from drumlin.client.consumer.options import ConsumerOptions, Subscription
from drumlin.client.errors import ClientError, translated
from drumlin.client.loops.core_loop import CoreLoop
from drumlin.client.places import Place, check_place
from drumlin.client.topic_partition import AnyPartition, TopicPartition, as_partitions
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.retry import Deadline
from drumlin.records.batch.gaps import stretch_of

if TYPE_CHECKING:
    import pyarrow as pa

    from drumlin.client.consumer.fetching.decoder import Decoded

T = TypeVar("T")

#: Offsets to commit: plain, or with metadata.
Offsets = Mapping[AnyPartition, int | OffsetAndMetadata]
OnGap = Callable[[TopicPartition], object]
#: A place to seek to.
SeekTo = Place | OffsetAndMetadata

_LEAVE_TIMEOUT_MS: Final = 5_000


class Consumer:
    """A consumer. Use it as a context manager, or `close` it before its client.

    One thread at a time may poll or iterate; anything else may be called from any thread, even
    `close`, which ends a poll. Callbacks run in the thread that polls, and may use the
    consumer but not poll.
    """

    def __init__(
        self,
        thread: CoreLoop,
        connections: BrokerConnections,
        group: str | None,
        subscription: Subscription | None,
        assigned: Collection[TopicPartition],
        options: ConsumerOptions,
        on_gap: OnGap | None = None,
    ) -> None:
        """`on_gap`: called before `poll` returns records with a gap, left by log cleaning."""
        self._thread = thread
        self._on_gap = on_gap
        self._options = options
        self._group = group
        self._is_closed = False
        self._polling = threading.Lock()
        self._reading: tuple[Piece, Iterator[Decoded]] | None = None

        async def start() -> ConsumerEngine:
            return ConsumerEngine(connections, group, subscription, assigned, options)

        self._engine = thread.run(start())

    # -- reading -------------------------------------------------------------------------

    def poll(self, timeout_ms: float | None = None) -> pa.RecordBatch | None:
        """The next records of some partition; None if there are none within `timeout_ms`.

        The next poll marks all records returned so far as processed.

        Returns:
            A batch with the columns of `Client.read`; `topic_of` returns its topic.

        Raises:
            OffsetOutOfRange, LogTruncated, NoCommittedOffset: a partition has no valid position;
                `seek` gives it one.
            Undecodable: a record does not have the format in `decode`; `seek` past it skips it.
            MembershipEnded: the group refuses this consumer for good.
            CommitFailed: with delivery="at_most_once": the records were not returned, and are
                not lost.
        """
        return self._poll(None if timeout_ms is None else Deadline(timeout_ms))

    def _poll(self, deadline: Deadline | None) -> pa.RecordBatch | None:
        with self._one_at_a_time(), translated():
            if self._is_closed:
                raise ClientError("this consumer is closed")
            comes_back = True
            try:
                while True:
                    found = self._thread.run(self._engine.next(deadline, comes_back=comes_back))
                    comes_back = False
                    if found is None:
                        return None
                    batch = self._take(found, deadline)
                    if batch is not None:
                        return batch
            finally:
                if self._thread.is_running:
                    self._thread.call_soon(self._engine.poll_ended)

    def _take(
        self, found: Duty | Readable | Reset, deadline: Deadline | None
    ) -> pa.RecordBatch | None:
        if isinstance(found, Duty):
            self._carry_out(found)
            brings = found.kind is DutyKind.ASSIGN and found.partitions
            if brings and isinstance(deadline, IdleDeadline):
                deadline.begin()
            return None
        if isinstance(found, Reset):
            if self._options.on_reset is not None:
                self._options.on_reset(found.place, found.old_offset, found.new_offset)
            return None
        return self._read(found)

    def _read(self, found: Readable) -> pa.RecordBatch | None:
        from drumlin.client.consumer.fetching.decoder import decode

        piece, position = found
        reading, self._reading = self._reading, None  # dropped if an exception interrupts this
        if reading is None or reading[0] is not piece:
            decoding = decode(piece, position, self._options)
            reading = (piece, self._thread.iterate(decoding, len(piece.records)))
            if self._on_gap is not None and _has_gap(found):
                self._on_gap(piece.place)
        decoded = next(reading[1])
        if decoded.batch is not None and self._options.delivery == "at_most_once":
            self._commit_first(piece, decoded)
        self._thread.call_soon(
            lambda: self._engine.given(piece, decoded.end_offset, is_last=decoded.is_last)
        )
        if not decoded.is_last:
            self._reading = reading
        return decoded.batch

    def _commit_first(self, piece: Piece, decoded: Decoded) -> None:
        end = OffsetAndMetadata(decoded.end_offset, "", piece.leader_epoch)
        self._thread.run(self._engine.commit({piece.place: end}))

    def _carry_out(self, duty: Duty) -> None:
        engine = self._engine
        tell = {
            DutyKind.ASSIGN: self._options.on_assigned,
            DutyKind.REVOKE: self._options.on_revoked,
            DutyKind.LOSE: self._options.on_lost or self._options.on_revoked,
        }[duty.kind]
        try:
            self._thread.call_soon(engine.begin, duty)
            if duty.kind is DutyKind.REVOKE:
                self._thread.run(engine.commit_before_revoke(duty.partitions))
            if tell is not None:
                tell(duty.partitions)
        finally:
            self._thread.call_soon(engine.finish, duty)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        if not self._is_closed:
            batch = self._poll(self._idle_deadline())
            if batch is not None:
                return batch
        raise StopIteration

    def _idle_deadline(self) -> IdleDeadline | None:
        options, engine = self._options, self._engine
        if options.idle_timeout_ms is None:
            return None
        return IdleDeadline(
            options.idle_timeout_ms,
            # Other members may delay a rebalance for this long.
            options.max_poll_interval_ms,
            lambda: engine.has_assignment,
        )

    @contextlib.contextmanager
    def _one_at_a_time(self) -> Iterator[None]:
        if not self._polling.acquire(blocking=False):
            raise ClientError(
                "this consumer is polled already, by another thread or task, or from a callback"
            )
        try:
            yield
        finally:
            self._polling.release()

    # -- offsets -------------------------------------------------------------------------

    def commit(self, offsets: Offsets[AnyPartition] | None = None) -> None:
        """Commit synchronously, by default everything returned by `poll` so far.

        Offsets that are passed in are committed unchanged. By default no committed offset of this
        consumer moves back, unless `seek` has moved the position since.

        Raises:
            CommitFailed: this consumer has lost its partitions, or is about to.
            TypeError, ValueError: a key is not a partition, or a value not an offset.
        """
        with translated():
            self._thread.run(self._engine.commit(_to_commit(offsets)))

    def commit_async(self, offsets: Offsets[AnyPartition] | None = None) -> Future[None]:
        """Commit in the background, after earlier commits.

        Returns:
            A future with the outcome: its `result()` raises what `commit` would.

        Raises:
            ClientError: the client is closed.
        """
        return self._thread.submit(_translating(self._engine.commit(_to_commit(offsets))))

    def committed(
        self, partitions: Collection[tuple[str, int]] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The group's committed offsets, by default those of the assigned partitions.

        Returns:
            By (topic, partition): `offset`, `metadata` and `leader_epoch`; partitions without one
            are left out.

        Raises:
            ClientError: the consumer has no group.
        """
        with translated():
            places = self.assignment if partitions is None else as_partitions(partitions)
            return self._thread.run(self._engine.committed(places)) if places else {}

    def position(self, topic: str, partition: int, timeout_ms: float = 30_000) -> int:
        """The offset of the next record that `poll` returns; waits until it is known.

        Raises:
            RequestTimedOut: the position is not known within `timeout_ms`.
            OffsetOutOfRange, LogTruncated, NoCommittedOffset: as from `poll`.
            ClientError: the partition is not assigned.
        """
        with translated():
            deadline = Deadline(timeout_ms)
            return self._thread.run(
                self._engine.position(TopicPartition(topic, partition), deadline)
            )

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The position of each partition, as plain values that can be committed elsewhere.

        Returns:
            By (topic, partition): `offset`, `metadata` and `leader_epoch`; positions that are not
            known yet are left out.
        """
        return self._call(self._engine.positions.current)

    def group_metadata(self) -> GroupMetadata:
        """This member's id and generation, which a transaction needs to commit `positions`.

        A transaction accepts positions only from a consumer with `commit_interval_ms=None`.
        """
        return self._call(self._engine.group_metadata)

    def seek(self, topic: str, partition: int, to: SeekTo) -> None:
        """Continue reading at `to`: an offset, "earliest" or "latest", a time, or a value of
        `positions` or `committed`.

        Raises:
            TypeError, ValueError: `to` has another form.
        """
        if not isinstance(to, OffsetAndMetadata):
            check_place("to", to)
        self._call(lambda: self._engine.seek(TopicPartition(topic, partition), to))

    # -- partitions ----------------------------------------------------------------------

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that this consumer reads now."""
        return self._call(lambda: self._engine.positions.places)

    @property
    def has_assignment(self) -> bool:
        """Whether this consumer has ever had an assignment, even an empty one."""
        return self._call(lambda: self._engine.has_assignment)

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """The paused partitions: `poll` returns no records from them."""
        states = self._engine.positions
        return self._call(lambda: frozenset(each.place for each in states if each.is_paused))

    def pause(self, partitions: Collection[tuple[str, int]] | None = None) -> None:
        """Pause these partitions (by default all) until `resume`. Keep polling meanwhile."""
        places = self.assignment if partitions is None else as_partitions(partitions)
        self._call(lambda: self._engine.pause(places))

    def resume(self, partitions: Collection[tuple[str, int]] | None = None) -> None:
        """Undo `pause` for these partitions, by default for all."""
        places = self.paused if partitions is None else as_partitions(partitions)
        self._call(lambda: self._engine.resume(places))

    def lag(self) -> dict[TopicPartition, int]:
        """The lag of this consumer.

        Returns:
            By (topic, partition): the number of offsets between the position and the end offset
            of the last fetch; partitions without a known lag are left out.
        """
        states = self._engine.positions
        return self._call(
            lambda: {
                each.place: max(each.end_offset - each.position, 0)
                for each in states
                if each.end_offset >= 0 and each.position >= 0
            }
        )

    # -- the end -------------------------------------------------------------------------

    def close(self, *, leave: bool | None = None) -> None:
        """Commit the returned records' offsets, give up the partitions, and leave the group.

        Args:
            leave: whether the member leaves for good. By default a static member does not: it may
                come back, so the group keeps its partitions until its session times out.

        Raises:
            ClientError: in a callback of the client's own thread. A commit that fails is logged.
        """
        self._close(is_done=True, leave=leave)

    def _close(self, *, is_done: bool, leave: bool | None = None) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if not self._thread.is_running:
            return
        engine, options = self._engine, self._options
        try:
            owned = self._thread.run(engine.stop_polling())
            if is_done:
                self._call(engine.positions.mark_processed)
            self._thread.run(engine.commit_before_revoke(owned or self.assignment))
            if owned and options.on_revoked is not None:
                options.on_revoked(owned)
        finally:
            self._thread.run(engine.shut_down(leaves=leave, timeout_ms=_LEAVE_TIMEOUT_MS))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        # After an exception the last batch counts as not processed, and is read again.
        self._close(is_done=kind is None)

    def __repr__(self) -> str:
        whose = "without a group" if self._group is None else f"of group {self._group!r}"
        return f"<drumlin.Consumer {whose}{', closed' if self._is_closed else ''}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Consumer belongs to its client and its thread")

    def _call(self, function: Callable[[], T]) -> T:
        with translated():
            return self._thread.call(function)


def _has_gap(found: Readable) -> bool:
    piece, position = found
    return stretch_of(piece.records, position, piece.end_offset).gap_offset is not None


def topic_of(batch: pa.RecordBatch) -> str:
    """The topic of a batch that a consumer returned."""
    topic: bytes = batch.schema.metadata[b"topic"]
    return topic.decode()


def _to_commit(
    offsets: Offsets[AnyPartition] | None,
) -> dict[TopicPartition, OffsetAndMetadata] | None:
    return None if offsets is None else to_commit(offsets)


async def _translating(work: Any) -> None:
    with translated():
        await work
