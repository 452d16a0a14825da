"""Keeps a topic in a store: the members of a group share its partitions, and the store decides.

An assigned partition is claimed in the store, and read from the store's position on. It is loaded
from the beginning if the store has no position, or one of another topic, or if records are missing
behind it that may have been tombstones. All state is in the store: a killed process loses nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from drumlin.client.admin.committed_offsets import OffsetAndMetadata
from drumlin.client.arguments import Decode
from drumlin.client.consumer.consumer import Consumer
from drumlin.client.consumer.options import ConsumerOptions, Subscription
from drumlin.client.errors import OffsetOutOfRange, translated
from drumlin.client.table.loading import ISOLATION, OVERTAKEN, PASSES, PAUSE_S, Loader
from drumlin.client.tables import decoded
from drumlin.client.topic_partition import TopicPartition
from drumlin.serving.moments import Moment
from drumlin.serving.owned import Owned
from drumlin.serving.target import Fenced, Position, Replacement, ReplacementLost, Target

if TYPE_CHECKING:
    import pyarrow as pa

    from drumlin.client.client import Client

_COLUMNS: Final = ("partition", "key", "value")
_POLL_MS: Final = 500
#: While the end is looked for.
_POLL_UNTIL_END_MS: Final = 50
_LOOK_S: Final = 5.0
_PROGRESS_S: Final = 1.0
_STAY_MEMBER_S: Final = 5.0
#: The time until others take over the partitions of a killed process.
_SESSION_MS: Final = 10_000
_WRITE_IDLE_S: Final = 60.0


class Progress(NamedTuple):
    """The progress: `records` were read by this process, `lag` are left in its partitions."""

    records: int
    records_per_s: float
    lag: int
    partitions: int


class _GivenUp(Exception):
    """A partition was revoked while it was loaded."""


class Materializing:
    """One process's share of a topic's partitions."""

    def __init__(
        self,
        client: Client,
        topic: str,
        group: str,
        target: Target,
        *,
        instance: str | None,
        decode: Decode | None,
        memory_bytes: int,
    ) -> None:
        self._client = client
        self._topic = topic
        self._target = target
        self._decode: Decode | None = decode
        self._memory_bytes = memory_bytes
        self._loader = Loader(client._thread, client._connections, topic)
        self._topic_id: str | None = None
        self._delete_retention_ms = 0
        self._owned: dict[int, Owned] = {}
        self._to_claim: set[int] = set()
        self._to_load: set[int] = set()
        self._records = 0
        self._rate = 0.0
        self._told = (time.monotonic(), 0)
        self._looked_s = time.monotonic()
        self._poll_ms = _POLL_MS
        self._describe()
        options = ConsumerOptions(
            columns=_COLUMNS,
            decode=self._decode,
            max_records=target.rows_at_a_time,
            isolation=ISOLATION,
            group_instance_id=instance,
            session_timeout_ms=_SESSION_MS,
            on_assigned=self._assigned,
            on_revoked=self._given_up,
            on_lost=self._given_up,
        )
        with translated():
            self._consumer = Consumer(
                client._thread,
                client._connections,
                group,
                Subscription.of(topic),
                (),
                options,
                on_gap=self._met_gap,
            )

    def run(
        self,
        *,
        until_end: bool,
        on_progress: Callable[[Progress], object] | None,
        stop: threading.Event,
    ) -> Progress:
        """Run until `stop` is set, or until the store has all that the log has now."""
        ends = self._ends() if until_end else None
        self._poll_ms = _POLL_UNTIL_END_MS if until_end else _POLL_MS
        with self._consumer:
            while not stop.is_set():
                self._step()
                if time.monotonic() - self._told[0] >= _PROGRESS_S:
                    progress = self._progress()
                    if on_progress is not None:
                        on_progress(progress)
                if ends is not None and not self._to_load and self._has(ends):
                    break
        return self._progress()

    def _has(self, ends: dict[int, int]) -> bool:
        found = self._target.positions()
        return all(
            each in found and found[each].topic_id == self._topic_id and found[each].offset >= end
            for each, end in ends.items()
        )

    def _progress(self) -> Progress:
        now_s, (before_s, before) = time.monotonic(), self._told
        if now_s > before_s:
            self._rate = (self._records - before) / (now_s - before_s)
        self._told = (now_s, self._records)
        lag = sum(self._consumer.lag().values())
        return Progress(self._records, self._rate, lag, len(self._owned))

    # -- one step --------------------------------------------------------------------------

    def _step(self) -> None:
        try:
            batch = self._consumer.poll(0 if self._to_claim or self._to_load else self._poll_ms)
        except OffsetOutOfRange as error:
            # The next records were deleted, or the log was truncated.
            self._load_later(error.partition)
            return
        if batch is not None and batch.num_rows:
            self._apply(batch)
        for partition in sorted(self._to_claim):
            self._claim(partition)
        for partition in sorted(self._to_load):
            self._load(partition)
        if time.monotonic() - self._looked_s >= _LOOK_S:
            self._look()

    def _apply(self, batch: pa.RecordBatch) -> None:
        partition = batch.column("partition")[0].as_py()
        owned = self._owned.get(partition)
        if owned is None or owned.position is None or partition in self._to_load:
            return  # revoked in a callback, or about to be loaded
        columns = [batch.column(name).to_pylist() for name in ("key", "value")]
        changes = dict(zip(*columns, strict=True))
        changes.pop(None, None)
        at = self._consumer.positions()[TopicPartition(self._topic, partition)]
        position = owned.position._replace(offset=at.offset, leader_epoch=at.leader_epoch)
        if self._write(owned, changes, position):
            self._records += batch.num_rows

    def _write(self, owned: Owned, changes: dict[Any, Any], position: Position) -> bool:
        try:
            self._target.apply(owned.partition, owned.term, changes, position)
        except Fenced:
            self._claim_later(owned.partition)
            return False
        owned.position = position
        owned.written_s = time.monotonic()
        owned.settle()
        return True

    # -- partitions ------------------------------------------------------------------------

    def _assigned(self, places: Iterable[TopicPartition]) -> None:
        for each in places:
            self._claim(each.partition)

    def _given_up(self, places: Iterable[TopicPartition]) -> None:
        for each in places:
            self._owned.pop(each.partition, None)
            self._to_claim.discard(each.partition)
            self._to_load.discard(each.partition)

    def _claim_later(self, partition: int) -> None:
        """Schedule another claim, after another process has claimed it; a rebalance cancels it."""
        self._consumer.pause([TopicPartition(self._topic, partition)])
        self._owned.pop(partition, None)
        self._to_claim.add(partition)

    def _load_later(self, partition: int) -> None:
        self._consumer.pause([TopicPartition(self._topic, partition)])
        self._to_load.add(partition)

    def _claim(self, partition: int) -> None:
        """Claim the partition in the store, and continue from the store's position."""
        self._to_claim.discard(partition)
        term, position = self._target.claim(partition)
        owned = self._owned[partition] = Owned(partition, term, position)
        if position is None or position.topic_id != self._topic_id:
            self._load_later(partition)
        else:
            self._continue(owned)

    def _continue(self, owned: Owned) -> None:
        assert owned.position is not None
        place = TopicPartition(self._topic, owned.partition)
        at = OffsetAndMetadata(owned.position.offset, "", owned.position.leader_epoch)
        self._consumer.seek(*place, at)
        self._consumer.resume([place])

    def _met_gap(self, place: TopicPartition) -> None:
        """Load the partition if tombstones may be among the records that are missing."""
        owned = self._owned.get(place.partition)
        if owned and owned.may_lack_deletions(self._delete_retention_ms, Moment.now()):
            self._load_later(place.partition)

    # -- loading ---------------------------------------------------------------------------

    def _load(self, partition: int) -> None:
        """Replace the partition's rows by the state of the log now."""
        owned = self._owned[partition]
        others = [each for each in self._consumer.assignment if each.partition != partition]
        self._consumer.pause(others)
        try:
            self._load_once(owned)
            owned.in_vain.end()
            self._to_load.discard(partition)
            self._continue(owned)
        except _GivenUp:
            pass
        except (*OVERTAKEN, *PASSES, ReplacementLost) as error:
            owned.in_vain.check(error)
            time.sleep(PAUSE_S)  # it is tried again at the next step
        except Fenced:
            self._to_load.discard(partition)
            self._claim_later(partition)
        finally:
            waiting = self._to_load | self._to_claim
            self._consumer.resume(
                [each for each in self._consumer.assignment if each.partition not in waiting]
            )

    def _load_once(self, owned: Owned) -> None:
        self._describe()
        since = Moment.now()
        replacement = self._target.replace(owned.partition, owned.term)
        polled_s = time.monotonic()

        def take(batch: pa.RecordBatch) -> None:
            nonlocal polled_s
            self._put(replacement, batch)
            if time.monotonic() - polled_s >= _STAY_MEMBER_S:
                # A poll may revoke or assign other partitions.
                self._consumer.pause()
                came = self._consumer.poll(0)
                if came is not None:
                    self._apply(came)
                polled_s = time.monotonic()
            if self._owned.get(owned.partition) is not owned:
                raise _GivenUp

        with translated():
            states = self._loader.load([owned.partition], self._memory_bytes, take)
        (state,) = states.values()
        epoch = state.claim.leader_epoch
        position = Position(self._topic_id, state.position, epoch, str(since))
        replacement.commit(position)
        owned.position = position

    def _put(self, replacement: Replacement, batch: pa.RecordBatch) -> None:
        readable = decoded(batch, self._decode, self._topic)
        keys, values = (readable.column(name).to_pylist() for name in ("key", "value"))
        replacement.add(zip(keys, values, strict=True))
        self._records += batch.num_rows

    # -- topic and log ends ----------------------------------------------------------------

    def _look(self) -> None:
        """Check that the topic is the same, and look where its logs end."""
        self._looked_s = time.monotonic()
        before = self._topic_id
        try:
            self._describe()
            asked = Moment.now()
            ends = self._ends()
        except PASSES:
            return
        for owned in list(self._owned.values()):
            if self._topic_id != before:
                self._load_later(owned.partition)
            elif owned.partition in ends:
                owned.saw_end(ends[owned.partition], asked)
                if owned.position is not None and self._looked_s - owned.written_s >= _WRITE_IDLE_S:
                    self._write(owned, {}, owned.position)

    def _describe(self) -> None:
        configs = self._client.topic_configs(self._topic)
        self._delete_retention_ms = int(configs["delete.retention.ms"].value or 0)
        with translated():
            self._topic_id = self._loader.describe().topic_id

    def _ends(self) -> dict[int, int]:
        return self._client.offsets(self._topic, isolation="read_committed")
