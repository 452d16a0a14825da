"""Keeps topics in a store: the members of a group share the partitions; the store fences writers.

An assigned partition is claimed in the store, and read from the store's position. The partition is
loaded from the beginning if the store has no position or that of another topic, or if records after
the position are missing that may have been tombstones. All state is in the store, so a killed
process loses nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from drumlin.client.admin.committed_offsets import OffsetAndMetadata
from drumlin.client.arguments import Decode
from drumlin.client.consumer.consumer import Consumer, topic_of
from drumlin.client.consumer.options import ConsumerOptions, Subscription
from drumlin.client.consumer.topics import wanted_topics
from drumlin.client.errors import ClientError, OffsetOutOfRange, UnknownTopic, translated
from drumlin.client.table.loading import ISOLATION, OVERTAKEN, PASSES, PAUSE_S
from drumlin.client.topic_partition import TopicPartition
from drumlin.serving.kept_topic import KeptTopic
from drumlin.serving.moments import Moment
from drumlin.serving.owned import Owned
from drumlin.serving.target import Fenced, Position, ReplacementLost
from drumlin.serving.targets import Store

if TYPE_CHECKING:
    import pyarrow as pa

    from drumlin.client.client import Client

_COLUMNS: Final = ("partition", "key", "value")
_POLL_MS: Final = 500
#: The poll timeout with `until_end`.
_POLL_UNTIL_END_MS: Final = 50
_LOOK_S: Final = 5.0
_PROGRESS_S: Final = 1.0
#: The session timeout: other processes take over a killed one's partitions after it.
_SESSION_MS: Final = 10_000
_WRITE_IDLE_S: Final = 60.0
#: The interval of looking for new topics of a pattern.
_FIND_TOPICS_MS: Final = 10_000


class Progress(NamedTuple):
    """The progress: `records` that this process has read, `lag` left in its partitions."""

    records: int
    records_per_s: float
    lag: int
    partitions: int


class _GivenUp(Exception):
    """A partition was revoked while it was loaded, or `stop` was set."""


class Materializing:
    """One process's share of the partitions of some topics."""

    def __init__(
        self,
        client: Client,
        subscription: Subscription,
        group: str,
        store: Store,
        *,
        instance: str | None,
        decode: Decode | None,
        memory_bytes: int,
    ) -> None:
        self._client = client
        self._subscription = subscription
        self._store = store
        self._decode: Decode | None = decode
        self._memory_bytes = memory_bytes
        self._topics: dict[str, KeptTopic] = {}
        self._owned: dict[TopicPartition, Owned] = {}
        self._to_claim: set[TopicPartition] = set()
        self._to_load: set[TopicPartition] = set()
        self._records = 0
        self._rate = 0.0
        self._told = (time.monotonic(), 0)
        self._is_until_end = False
        self._poll_ms = _POLL_MS
        self._on_progress: Callable[[Progress], object] | None = None
        self._stop = threading.Event()
        with translated():
            wanted = client._thread.run(wanted_topics(client._connections, subscription))
        for each in sorted(wanted):
            try:
                self._topic(each)
            except UnknownTopic as error:
                self._check_may_go(error)
        options = ConsumerOptions(
            columns=_COLUMNS,
            decode=self._decode,
            max_records=store.rows_at_a_time,
            isolation=ISOLATION,
            group_instance_id=instance,
            session_timeout_ms=_SESSION_MS,
            metadata_refresh_ms=_FIND_TOPICS_MS,
            on_assigned=self._assigned,
            on_revoked=self._given_up,
            on_lost=self._given_up,
        )
        with translated():
            self._consumer = Consumer(
                client._thread,
                client._connections,
                group,
                subscription,
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
        """Run until `stop` is set, or until the store has all records that are now in the logs."""
        ends = {each: topic.ends() for each, topic in self._topics.items()} if until_end else None
        self._is_until_end = until_end
        self._poll_ms = _POLL_UNTIL_END_MS if until_end else _POLL_MS
        self._on_progress, self._stop = on_progress, stop
        has_joined = False
        with self._consumer:
            while not stop.is_set():
                # Assigned partitions are claimed in this step: a store with another topic, group
                # or format is refused, even if it has all records.
                has_joined = has_joined or self._consumer.has_assignment
                self._step()
                self._tell()
                if ends is not None and has_joined and not self._to_load and self._has(ends):
                    break
            self._flush(self._owned, now=True)
            return self._progress()  # before the partitions are given up

    def _has(self, ends: Mapping[str, dict[int, int]]) -> bool:
        topics = self._topics
        return all(topics[each].has(those) for each, those in ends.items() if each in topics)

    def _tell(self) -> None:
        if time.monotonic() - self._told[0] >= _PROGRESS_S:
            progress = self._progress()
            if self._on_progress is not None:
                self._on_progress(progress)

    def _progress(self) -> Progress:
        now_s, (before_s, before) = time.monotonic(), self._told
        if now_s > before_s:
            self._rate = (self._records - before) / (now_s - before_s)
        self._told = (now_s, self._records)
        lag = sum(self._consumer.lag().values())
        return Progress(self._records, self._rate, lag, len(self._owned))

    def _topic(self, name: str) -> KeptTopic:
        found = self._topics.get(name)
        if found is None:
            found = KeptTopic(self._client, name, self._store, self._decode, self._memory_bytes)
            self._topics[name] = found
        return found

    def _check_may_go(self, error: ClientError) -> None:
        """Raise the error if a topic given by name was deleted. A pattern's topic may be."""
        if isinstance(error, UnknownTopic) and self._subscription.pattern is None:
            raise error

    # -- one step --------------------------------------------------------------------------

    def _step(self) -> None:
        self._poll(0 if self._to_claim or self._to_load else self._poll_ms)
        for place in sorted(self._to_claim):
            self._claim(place)
        for place in sorted(self._to_load):
            if place in self._to_load and not self._stop.is_set():
                self._load(place)
        self._look()

    def _poll(self, timeout_ms: float) -> None:
        """Write the next records, give partitions up, or claim new ones."""
        try:
            batch = self._consumer.poll(timeout_ms)
        except OffsetOutOfRange as error:
            # The next records were deleted, or the log was truncated.
            self._load_later(TopicPartition(error.topic, error.partition))
            return
        if batch is not None and batch.num_rows:
            self._apply(batch)
        elif batch is None:
            self._pass_over()
        # Flush sooner if nothing is left to read: a caller may be waiting for the end.
        for each in self._flush(self._owned, now=batch is None and self._is_until_end):
            self._claim_later(each)

    def _apply(self, batch: pa.RecordBatch) -> None:
        place = TopicPartition(topic_of(batch), batch.column("partition")[0].as_py())
        owned = self._owned.get(place)
        if owned is None or owned.position is None or place in self._to_load:
            return  # revoked in a callback, or about to be loaded
        columns = [batch.column(name).to_pylist() for name in ("key", "value")]
        changes = dict(zip(*columns, strict=True))
        changes.pop(None, None)
        at = self._consumer.positions()[place]
        position = owned.position._replace(offset=at.offset, leader_epoch=at.leader_epoch)
        if self._write(place, owned, changes, position):
            self._records += batch.num_rows

    def _pass_over(self) -> None:
        """Advance positions past offsets without records, as after an aborted transaction.

        Otherwise the store would never reach the end of such a log.
        """
        for place, at in self._consumer.positions().items():
            owned = self._owned.get(place)
            if owned is None or owned.position is None or place in self._to_load:
                continue  # read, but not written
            if at.offset > owned.position.offset:
                moved = owned.position._replace(offset=at.offset, leader_epoch=at.leader_epoch)
                self._write(place, owned, {}, moved)

    def _write(
        self, place: TopicPartition, owned: Owned, changes: dict[Any, Any], position: Position
    ) -> bool:
        try:
            self._topics[place.topic].target.apply(place.partition, owned.term, changes, position)
        except Fenced:
            self._claim_later(place)
            return False
        owned.position = position
        owned.written_s = time.monotonic()
        owned.settle()
        return True

    def _flush(self, places: Iterable[TopicPartition], *, now: bool) -> list[TopicPartition]:
        """Flush targets that collect writes; returns the partitions claimed by other processes."""
        fenced = []
        for each in places:
            owned, topic = self._owned.get(each), self._topics.get(each.topic)
            if owned is None or topic is None or topic.collecting is None:
                continue
            try:
                topic.collecting.flush(each.partition, owned.term, now=now)
            except Fenced:
                fenced.append(each)
        return fenced

    # -- partitions ------------------------------------------------------------------------

    def _assigned(self, places: Iterable[TopicPartition]) -> None:
        for each in places:
            self._claim(each)

    def _given_up(self, places: Iterable[TopicPartition]) -> None:
        places = list(places)
        self._flush(places, now=True)
        for each in places:
            self._owned.pop(each, None)
            self._to_claim.discard(each)
            self._to_load.discard(each)

    def _claim_later(self, place: TopicPartition) -> None:
        """Schedule another claim, after another process has claimed it; a rebalance cancels it."""
        self._consumer.pause([place])
        self._owned.pop(place, None)
        self._to_load.discard(place)
        self._to_claim.add(place)

    def _load_later(self, place: TopicPartition) -> None:
        self._consumer.pause([place])
        self._to_load.add(place)

    def _claim(self, place: TopicPartition) -> None:
        """Claim the partition in the store, and continue from the store's position."""
        self._to_claim.discard(place)
        try:
            topic = self._topic(place.topic)
        except (UnknownTopic, *PASSES) as error:
            self._check_may_go(error)
            self._claim_later(place)
            time.sleep(PAUSE_S)
            return
        term, position = topic.target.claim(place.partition)
        self._owned[place] = Owned(place.partition, term, position)
        if position is None or position.topic_id != topic.topic_id:
            self._load_later(place)
        else:
            self._continue(place, position)

    def _continue(self, place: TopicPartition, position: Position) -> None:
        self._consumer.seek(*place, OffsetAndMetadata(position.offset, "", position.leader_epoch))
        self._consumer.resume([place])

    def _met_gap(self, place: TopicPartition) -> None:
        """Schedule a load of the partition if the missing records may include tombstones."""
        owned = self._owned.get(place)
        if owned is None:
            return
        stay_ms = self._topics[place.topic].delete_retention_ms
        if owned.may_lack_deletions(stay_ms, Moment.now()):
            self._load_later(place)

    # -- loading ---------------------------------------------------------------------------

    def _load(self, place: TopicPartition) -> None:
        """Replace the partition's rows with the log's current state.

        Records of other partitions are written meanwhile.
        """
        owned = self._owned[place]

        def read(rows: int) -> None:
            self._records += rows
            self._poll(0)
            self._tell()
            if self._owned.get(place) is not owned or self._stop.is_set():
                raise _GivenUp

        try:
            self._topics[place.topic].load(owned, read)
            assert owned.position is not None
            owned.in_vain.end()
            self._to_load.discard(place)
            self._continue(place, owned.position)
        except _GivenUp:
            pass
        except (*OVERTAKEN, *PASSES, ReplacementLost, UnknownTopic) as error:
            self._check_may_go(error)
            owned.in_vain.check(error)
            time.sleep(PAUSE_S)  # the next step tries again
        except Fenced:
            self._claim_later(place)

    # -- topics and log ends ---------------------------------------------------------------

    def _look(self) -> None:
        """Check a topic's identity and end offsets: one topic in each step."""
        now_s = time.monotonic()
        topic = min(self._topics.values(), key=lambda each: each.looked_s, default=None)
        if topic is None or now_s - topic.looked_s < _LOOK_S:
            return
        topic.looked_s = now_s
        owned = {place: each for place, each in self._owned.items() if place.topic == topic.name}
        try:
            topic.describe()
            asked = Moment.now()
            ends = topic.ends()
        except PASSES:
            return
        except UnknownTopic as error:
            self._check_may_go(error)
            if not owned:  # the group has already revoked the topic's partitions
                del self._topics[topic.name]
            return
        for place, each in owned.items():
            if each.position is None:
                continue
            if each.position.topic_id != topic.topic_id:
                self._load_later(place)
            elif place.partition in ends:
                each.saw_end(ends[place.partition], asked)
                if now_s - each.written_s >= _WRITE_IDLE_S:
                    self._write(place, each, {}, each.position)
