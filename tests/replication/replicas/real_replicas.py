"""Three replicas of a compacted partition: real logs, cleaners, leader, followers; no network."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, TypeVar
from unittest.mock import patch

from compaction.readers import read_committed
from drumlin.broker.fetch_sessions.partition_read import PartitionRead, has_records
from drumlin.clock import ManualClock
from drumlin.compaction.round.cleaner import Cleaner
from drumlin.compaction.settings import CleanerSettings
from drumlin.compaction.throttle import Throttle
from drumlin.config.topic import LogConfig
from drumlin.metadata.image import PartitionState
from drumlin.metadata.rules.isr_requests import IsrRequest
from drumlin.records.batch.batch import parse_header
from drumlin.records.plain.record import Record, encode_batch
from drumlin.records.validation.validation import PreparedBatch
from drumlin.replication.followed_partition import FollowedPartition
from drumlin.replication.partition import LeaderContext, Partition
from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.producers.producer_state import TransactionMarker
from drumlin.storage.replacement.log_copy import ChangeOver, LogChange, LogCopy
from drumlin.turns import to_end
from drumlin.wire.by_hand.fetch_response import EpochEnd, PartitionFetch
from drumlin.wire.error_codes import ErrorCode
from storage.samples import NOW_MS, TOPIC_ID, open_logs

T = TypeVar("T")
RETENTION_MS = 1000
LAG_MAX_MS = 500.0
CONFIG = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=600,
    index_interval_bytes=100,
    delete_retention_ms=RETENTION_MS,
    min_cleanable_dirty_ratio=0.0,
)
NODES = (1, 2, 3)
KEYS = 5


def call(function: Callable[[], T]) -> T:
    return function()


def after(action: Callable[[], None] | None, function: Callable[..., T]) -> Callable[..., T]:
    """The function, before which something happens, once."""
    actions = [action] if action is not None else []

    def called(*arguments: Any, **more: Any) -> T:
        if actions:
            actions.pop()()
        return function(*arguments, **more)

    return called


class Event:
    """What the leader has appended."""

    def __init__(self, offset: int, producer_id: int, record: Record | None, ends: bool) -> None:
        self.offset, self.producer_id, self.record = offset, producer_id, record
        self.commits = ends


class Replicas:
    """Of one partition, and who is away."""

    def __init__(self, path: Path, source: Random) -> None:
        self._path, self._source = path, source
        self.clock = ManualClock(NOW_MS)
        self.dirs = {each: self._open(each) for each in NODES}
        for each in NODES:
            self.dirs[each].create("t", 0, TOPIC_ID, CONFIG)
        self.broker_epochs = dict.fromkeys(NODES, 1)
        self.away: set[int] = set()
        #: What each replica has been given, cleaned away or not.
        self._histories: dict[int, list[Event]] = {each: [] for each in NODES}
        #: The same of what it fetches beside its log.
        self._copies: dict[int, tuple[LogCopy, list[Event]]] = {}
        self.open: list[int] = []
        self._producers = 100
        self.state = PartitionState(0, 1, 0, NODES, NODES, 0)
        self.followed: dict[int, FollowedPartition] = {}
        self._begin()

    def _open(self, node: int) -> LogDirectories:
        return open_logs(self._path / str(node), config=CONFIG, clock=self.clock)

    def log(self, node: int) -> PartitionLog:
        log = self.dirs[node].get("t", 0)
        assert log is not None
        return log

    @property
    def events(self) -> list[Event]:
        """What the leader has, or had before its cleaner came."""
        return self._histories[self.state.leader]

    def empty(self, node: int) -> None:
        """It has lost all that it had."""
        self.log(node).truncate_fully_and_start_at(0)
        self._histories[node].clear()

    def _note_fetched(self, node: int, before: int) -> None:
        history = self._histories[node]
        self._histories[node] = self._fetched(history, before, self.log(node).log_end_offset)

    def _fetched(self, history: list[Event], before: int, after: int) -> list[Event]:
        kept = [each for each in history if each.offset < min(before, after)]
        return kept + [each for each in self.events if before <= each.offset < after]

    def _note_fetched_beside(self, node: int, copy: LogCopy, before: int) -> None:
        known, history = self._copies.get(node, (None, []))
        history = history if known is copy else []
        self._copies[node] = copy, self._fetched(history, before, copy.log.log_end_offset)

    def _carry_out(self, node: int, change: LogChange | None, before: int) -> None:
        """Do what an answer to a fetch from `before` on has led to, and note what there is."""
        followed = self.followed[node]
        copy = followed._copy
        if copy is not None:
            self._note_fetched_beside(node, copy, before)
        carry_out(followed, change)
        if isinstance(change, ChangeOver):
            _, history = self._copies.pop(node)
            committed = max(self.partition.high_watermark, self.partition.settled_before)
            leaders = {id(each) for each in self.events if each.offset < committed}
            gone = {id(each) for each in self._histories[node]} - set(map(id, history))
            assert not gone & leaders, "committed records are given up"
            self._histories[node] = history
        elif copy is None:
            self._note_fetched(node, before)

    # -- leaders -----------------------------------------------------------------------

    def _begin(self) -> None:
        """The leader of the state leads, all others follow."""
        for each in self.followed.values():
            each.close()
        leader, epoch = self.state.leader, self.state.leader_epoch
        context = LeaderContext(
            leader,
            lambda node, at: node not in self.away and at in (-1, self.broker_epochs[node]),
            lambda _: None,
            lambda: LAG_MAX_MS,
            self._grant,
            lambda _: True,
        )
        self.partition = Partition(self.log(leader), self.state, context)
        self.followed = {}
        for each in NODES:
            if each != leader and each not in self.away:
                self._follow(each, leader, epoch)

    def _follow(self, node: int, leader: int, epoch: int) -> None:
        self.followed[node] = FollowedPartition(self.log(node), leader, epoch)
        carry_out(self.followed[node], self.followed[node].begin())
        self._note_fetched(node, self.log(node).log_end_offset)

    def _grant(self, partition: Partition, wish: IsrRequest) -> None:
        assert partition is self.partition
        self._agree(tuple(each for each, _ in wish.isr))

    def _agree(self, isr: tuple[int, ...]) -> None:
        epoch = self.state.partition_epoch + 1
        self.state = replace(self.state, isr=isr, partition_epoch=epoch)
        self.partition.agreed(self.state)

    def lead(self, node: int) -> None:
        """Another member of the ISR leads: what it has not is gone."""
        self.partition.close()
        epochs = self.state.leader_epoch + 1, self.state.partition_epoch + 1
        self.state = replace(
            self.state, leader=node, leader_epoch=epochs[0], partition_epoch=epochs[1]
        )
        self._begin()
        ended = {each.producer_id for each in self.events if each.record is None}
        begun = {each.producer_id for each in self.events} - {-1}
        self.open = sorted(begun - ended)
        self.check(node)

    # -- what happens ------------------------------------------------------------------

    def append(self) -> None:
        source, producer_id = self._source, -1
        if source.random() < 0.3:
            self._producers += 1
            producer_id = self._producers
            self.open.append(producer_id)
        value = None if source.random() < 0.4 else b"%d" % self._producers + bytes(80)
        self.put(b"key-%d" % source.randrange(KEYS), value, producer_id)

    def put(self, key: bytes, value: bytes | None, producer_id: int = -1) -> None:
        record = Record(0, self.clock.wall_ms(), key, value)
        batch = memoryview(
            encode_batch(
                [record],
                producer_id=producer_id,
                producer_epoch=-1 if producer_id < 0 else 0,
                base_sequence=-1 if producer_id < 0 else 0,
                is_transactional=producer_id >= 0,
            )
        )
        prepared = PreparedBatch(batch, parse_header(batch))
        done = self.partition.append_as_leader(prepared, 1, self.clock.wall_ms())
        self.events.append(Event(done.base_offset, producer_id, record, ends=False))

    def end_transaction(self) -> None:
        if self.open:
            producer_id = self.open.pop(self._source.randrange(len(self.open)))
            self._end(producer_id, is_commit=self._source.random() < 0.5)

    def _end(self, producer_id: int, *, is_commit: bool) -> None:
        now_ms = self.clock.wall_ms()
        marker = TransactionMarker(is_commit, 0)
        done = self.partition.append_marker(marker, producer_id, 0, now_ms)
        self.events.append(Event(done.base_offset, producer_id, None, is_commit))

    def clean(self, node: int) -> None:
        log = self.log(node)
        log.roll(self.clock.wall_ms())
        stopping, settings = threading.Event(), CleanerSettings(dedupe_buffer_size=1 << 14)
        throttle = Throttle(settings.io_max_bytes_per_second, self.clock, stopping)
        Cleaner(settings, throttle, call, self.clock, stopping).clean(
            log, self.dirs[node].swap_segments
        )

    def leave(self, node: int) -> None:
        """It is away, and does not hear of anything."""
        self.away.add(node)
        self.clock.advance_ms(RETENTION_MS)
        followed = self.followed.pop(node, None)
        if followed is not None:
            followed.close()
        if node in self.state.isr:
            self.leave_isr(node)

    def leave_isr(self, node: int) -> None:
        self._agree(tuple(each for each in self.state.isr if each != node))

    def come_back(self, node: int) -> None:
        self.away.remove(node)
        self._follow(node, self.state.leader, self.state.leader_epoch)

    def lose_tail(self, node: int, end_offset: int) -> None:
        """Of one that is away: the power has failed there."""
        self.log(node).truncate_to(end_offset)
        self._note_fetched(node, self.log(node).log_end_offset)
        self.restart(node, is_clean=False)

    def restart(self, node: int, *, is_clean: bool) -> None:
        """Of one that is away."""
        if is_clean:
            self.dirs[node].close()
        else:
            self.dirs[node].write_checkpoints()
            self.dirs[node].abandon()
        self.dirs[node] = self._open(node)
        self.broker_epochs[node] += 1

    # -- fetches -----------------------------------------------------------------------

    def fetch(self, node: int, max_bytes: int, meanwhile: Callable[[], None] | None = None) -> None:
        """One round; `meanwhile`: what happens just before a thread reads the log."""
        followed, leader = self.followed[node], self.partition
        asked = followed.position
        wanted = (0, *asked, max_bytes)
        read = PartitionRead(max_bytes, 0, node, self.broker_epochs[node], None)
        answer = read.follow(leader, wanted)
        if answer is None:
            with patch.object(leader, "read_as_replica", after(meanwhile, leader.read_as_replica)):
                answer = read.look(leader, wanted, may_block=True)
        code, high_watermark, stable, start, _, records, diverging = answer
        if code == ErrorCode.offset_out_of_range:
            extent = leader.log_start_offset, leader.log_end_offset
            self._carry_out(node, followed.reset(asked, *extent, high_watermark), asked.offset)
            return
        assert code == ErrorCode.none
        content = records.read() if has_records(answer) else b""
        fetched = PartitionFetch(
            0,
            ErrorCode.none,
            high_watermark,
            stable,
            start,
            [],
            memoryview(content),
            diverging=None if diverging is None else EpochEnd(*diverging),
        )
        change = to_end(followed.take(asked, fetched, self.clock.wall_ms()))
        self._carry_out(node, change, asked.offset)

    def commit(self) -> None:
        """Have all in-sync replicas get all."""
        for _ in range(20):
            for each in self.followed:
                if each in self.state.isr:
                    self.fetch(each, 1000)

    def catch_up(self) -> None:
        for _ in range(500):
            for each in self.followed:
                self.fetch(each, 300)
            if (
                self.state.isr
                and set(self.state.isr) == set(NODES) - self.away
                and all(
                    each.log.high_watermark == self.partition.log_end_offset
                    for each in self.followed.values()
                )
            ):
                return
        raise AssertionError("they do not come to an end")

    # -- what must be so ---------------------------------------------------------------

    def check(self, node: int) -> None:
        """Every key has the value that was given to it last."""
        undecided = self.log(node).producer_state.first_undecided_offset
        end = self.log(node).log_end_offset if undecided is None else undecided
        committed = {each.producer_id for each in self.events if each.commits} | {-1}
        expected, found = {}, {}
        for each in self.events:
            if each.record is not None and each.offset < end and each.producer_id in committed:
                expected[each.record.key] = each.record.value
        for record in read_committed(self.log(node)):
            found[record.key] = record.value
        for values in (expected, found):
            for key in [each for each, value in values.items() if value is None]:
                del values[key]
        assert found == expected
        opened = [each.offset for each in self.events if each.producer_id in self.open]
        assert undecided == min(opened, default=None)


def carry_out(followed: FollowedPartition, truncation: LogChange | None) -> None:
    if truncation is not None:
        truncation.prepare()
        assert followed.cut(truncation)
        truncation.rebuild()
        followed.finish(truncation)
