"""Carries out decisions of groups: writes and takes over records, gives answers, watches deadlines.

The requests are in `coordinator.py`, on top of this. Nothing here decides.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from drumlin.clock import Clock
from drumlin.coordination.deadlines import DeadlineQueue
from drumlin.coordination.groups.answering import ANSWERS_PER_TURN, Answering
from drumlin.coordination.groups.any_group import AnyGroup, Downgrade, Effect, Write
from drumlin.coordination.groups.atomic_writer import AtomicWriter
from drumlin.coordination.groups.by_kind import expire
from drumlin.coordination.groups.classic.group import Group
from drumlin.coordination.groups.classic.messages import Answer, Answers, Store
from drumlin.coordination.groups.classic.states import Deadline
from drumlin.coordination.groups.commit import Commit, counts_partly, partly, sorted_out
from drumlin.coordination.groups.config import CoordinatorConfig
from drumlin.coordination.groups.group_context import GroupContext, GroupSetting, Topics
from drumlin.coordination.groups.group_record import GroupRecord
from drumlin.coordination.groups.log import LoadedPartition, load
from drumlin.coordination.groups.offset_batches import OffsetPacker, TopicValues
from drumlin.coordination.groups.record_registry import encode_record
from drumlin.coordination.groups.shard import GroupShard
from drumlin.coordination.pending_answer import Written
from drumlin.coordination.producer_ids import ProducerIds
from drumlin.coordination.sharded_coordinator import (
    Found,
    ShardedCoordinator,
    StateForm,
    StateLimits,
)
from drumlin.coordination.state_batches import RecordPacker, check_sizes, record_bytes_max
from drumlin.coordination.state_topic import Confirmation, StateTopic
from drumlin.storage.verification import Verification
from drumlin.turns import Pace, Turns, Work, one_turn
from drumlin.wire.errors import ErrorCode, KafkaError

_log = logging.getLogger(__name__)
T = TypeVar("T")

_LARGE_AT_A_TIME: Final = 2
#: Deadlines that come while a group is loaded are put off: members need a heartbeat's time.
_LOADING_RETRY_S: Final = 5.0
#: Tombstones that are packed in one go.
_REMOVED_AT_ONCE: Final = 1000


class GroupExecution(ShardedCoordinator[GroupShard, LoadedPartition, GroupRecord]):
    """Writes to the partitions of `__consumer_offsets` that are led here."""

    def __init__(
        self,
        config: CoordinatorConfig,
        clock: Clock,
        topic: StateTopic,
        topics: Topics,
        group_setting: GroupSetting,
        turns: Turns,
        producer_ids: ProducerIds,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        form = StateForm(
            lambda partition: GroupShard(partition, self._context),
            load,
            self._take_over,
            encode_record,
            self._apply,
        )
        limits = StateLimits(
            lambda: config.offsets_topic_num_partitions,
            lambda: config.offsets_commit_timeout_ms,
            lambda: config.offsets_topic_compression_codec,
        )
        super().__init__(topic, form, limits, clock, turns)
        self._config = config
        self._deadlines: DeadlineQueue[Deadline] = DeadlineQueue()
        self._context = GroupContext(config, group_setting, clock, self._deadlines, new_id, topics)
        self._atomic_writer = AtomicWriter(
            self._append,
            self._is_ours,
            self._batch_bytes_max,
            self._background,
            clock,
            producer_ids,
            limits.codec,
        )
        self._alarm: asyncio.TimerHandle | None = None
        self._answering = Answering()
        #: Groups that become groups of another kind: their deadlines wait. Those held must stay
        #: as they are meanwhile, whatever their members want.
        self._converting, self._held = set[str](), set[str]()
        self._storing = asyncio.Lock()
        #: Held while a commit is worked on that takes a lot of memory.
        self.large_commits: Final = asyncio.Semaphore(_LARGE_AT_A_TIME)

    # -- effects and time ----------------------------------------------------------------------

    def _carry_out(self, shard: GroupShard, group: AnyGroup, effects: Sequence[Effect]) -> None:
        if len(effects) > ANSWERS_PER_TURN:
            answers = [each for each in effects if isinstance(each, Answer)]
            self._answer(Answers(len(answers), iter(answers)))
            effects = [each for each in effects if not isinstance(each, Answer)]
        for effect in effects:
            if isinstance(effect, (Answer, Answers)):
                self._answer(effect)
            elif isinstance(effect, Write):
                self._write_of_group(shard, group, effect)
            elif isinstance(effect, Downgrade):
                self._begin_downgrade(shard, group)
            else:
                assert isinstance(group, Group)
                self._store(shard, group, effect)
        self._set_alarm()

    def _answer(self, effect: Answer | Answers) -> None:
        self._answering.give(effect)

    def _store(self, shard: GroupShard, group: Group, store: Store) -> None:
        """Store a classic group's decision: see `classic_execution.py`."""
        raise NotImplementedError

    def _begin_downgrade(self, shard: GroupShard, group: AnyGroup) -> None:
        """See `downgrade_execution.py`."""

    def _write_of_group(self, shard: GroupShard, group: AnyGroup, write: Write) -> None:
        try:
            confirmation = self._write(shard, write.records) if write.records else None
        except KafkaError as error:
            _log.warning("records of group %r were not written: %s", group.group_id, error)
            _refuse(write.answers, error)
            return
        self._go_on(shard, group.group_id, write.then)
        if confirmation is None:
            self._carry_out(shard, group, write.answers)
        elif write.answers:
            self._background.spawn(self._answer_late(shard, group, write.answers, confirmation))

    def _go_on(
        self,
        shard: GroupShard,
        group_id: str,
        then: Callable[[AnyGroup], Sequence[Effect]] | None,
    ) -> None:
        group = shard.groups.get(group_id)
        if then is not None and group is not None:
            self._carry_out(shard, group, then(group))

    async def _answer_late(
        self,
        shard: GroupShard,
        group: AnyGroup,
        answers: Sequence[Answer],
        confirmation: Confirmation,
    ) -> None:
        try:
            await self._log.confirmed(confirmation)
        except KafkaError as error:
            _refuse(answers, error)
        else:
            self._carry_out(shard, group, answers)

    def _take_over(self, shard: GroupShard, loaded: LoadedPartition) -> Work[None]:
        yield from self._unloading.go_on()
        yield from shard.take_over(loaded)

    def _on_loaded(self, partition: int) -> None:
        self._set_alarm()
        shard = self._partitions.find(partition)
        if shard is not None:
            self._atomic_writer.abort_unfinished(shard)
        if self._context.topics.was_any_deleted():  # else there is no need to look at every group
            self._background.spawn(
                self._remove(
                    partition, GroupShard.orphans, "what is known of deleted topics", Pace()
                )
            )

    def _set_alarm(self) -> None:
        """Have `wake` called when the next deadline passes."""
        deadline = self._deadlines.next_deadline()
        if deadline is None or not self._is_active:
            return
        loop = asyncio.get_running_loop()
        when = loop.time() + max(deadline - self._clock.monotonic(), 0)
        if self._alarm is not None:
            if self._alarm.when() <= when and not self._alarm.cancelled():
                return
            self._alarm.cancel()
        self._alarm = loop.call_at(when, self.wake)

    def wake(self) -> bool:
        """Expire deadlines that have passed; returns whether more are left for the next call.

        A heartbeat that arrives before its deadline is looked at was in time.
        """
        self._alarm = None
        try:
            return one_turn(self._tell_the_due()) is None
        finally:  # whatever is wrong with one group, the others are woken
            self._set_alarm()  # for the next turn, if more of them are due

    def _tell_the_due(self) -> Work[None]:
        """May be dropped wherever it yields: the other deadlines stay due."""
        for deadline in self._deadlines.look(self._clock.monotonic()):
            if deadline is not None:
                self._tell(deadline)
            yield

    def _tell(self, deadline: Deadline) -> None:
        partition = self._partition_for(deadline.group_id)
        # Where no member could be heard of, or be answered.
        if self._partitions.is_loading(partition) or deadline.group_id in self._converting:
            self._deadlines.schedule(deadline, self._clock.monotonic() + _LOADING_RETRY_S)
            return
        shard = self._partitions.find(partition)
        group = None if shard is None else shard.groups.get(deadline.group_id)
        if shard is not None and group is not None:
            self._carry_out(shard, group, expire(group, deadline))

    async def expire_offsets(self) -> None:
        """Delete offsets whose retention is over, and groups that are empty by then."""
        retention_ms = self._config.offsets_retention_minutes * 60_000
        pace = Pace()
        for partition in self._partitions.partitions():
            await self._remove(
                partition,
                lambda shard, group_id: shard.expired(group_id, retention_ms),
                "expired",
                pace,
            )

    async def _remove(
        self,
        partition: int,
        removable: Callable[[GroupShard, str], Iterator[list[GroupRecord]]],
        what: str,
        pace: Pace,
    ) -> None:
        """Write, for each group of a partition, the records that remove part of it."""

        def find(shard: GroupShard) -> Iterator[Found[GroupRecord]]:
            for group_id in list(shard.groups):
                for records in removable(shard, group_id):
                    yield f"group {group_id!r}: {what}", records

        await self._write_found(partition, find, pace)

    # -- the log -------------------------------------------------------------------------------

    def _apply(self, shard: GroupShard, records: Iterable[GroupRecord], _first: int = 0) -> None:
        """Take over records that are in the log now."""
        for each in shard.apply(records):
            self._answer(each)

    def _write_in_turns(
        self,
        shard: GroupShard,
        records: Iterable[GroupRecord],
        last: Callable[[], tuple[Sequence[GroupRecord], T]],
        take_over: Callable[[T], None],
    ) -> Work[Confirmation | None]:
        """As `_write`, for very many records, none of which may count before all do.

        `last` says with which records they end, when they are appended, and gives what
        `take_over` takes over of all of them.

        Raises:
            KafkaError: as `_write`, and as `last`.
        """
        limit, codec = self._batch_bytes_max(shard), self._config.offsets_topic_compression_codec
        packer = RecordPacker(
            encode_record, self._clock.wall_ms(), codec, bytes_max=record_bytes_max(limit)
        )
        for record in records:
            packer.add(record)
            yield
        self._check_leads(shard)
        ends, result = last()
        for record in ends:
            packer.add(record)
        batches = packer.batches()
        check_sizes([batch for batch, _ in batches], limit)
        confirmation, written = None, list[GroupRecord]()
        for batch, contained in batches:
            try:
                confirmation = self._append(shard, batch)
            except KafkaError:
                self._apply(shard, written)  # the memory says what the log does
                raise
            written += contained
        take_over(result)
        return confirmation

    def _commit(
        self, shard: GroupShard, commit: Commit, verification: Verification | None
    ) -> Work[Written[list[ErrorCode]]]:
        """Append offsets and take them over; a code for each of them.

        Raises:
            KafkaError: none of them is committed, whatever the log has of a transaction's.
        """
        self._check_leads(shard)
        check = shard.check_commit(commit.group_id, commit.committer)
        metadata_max_bytes = self._config.offset_metadata_max_bytes
        codes, accepted = yield from sorted_out(commit, check, metadata_max_bytes)
        if not accepted:
            return Written(codes)
        limit, now_ms = self._batch_bytes_max(shard), self._clock.wall_ms()
        codec = self._config.offsets_topic_compression_codec
        packer = OffsetPacker(
            commit.group_id,
            now_ms,
            None if commit.retention_ms is None else now_ms + commit.retention_ms,
            codec,
            commit.producer,
            record_bytes_max(limit),
        )
        for number, offsets in enumerate(accepted):
            if number:
                yield
            packer.add(offsets)
        batches = yield from packer.batches()
        are_several = len(batches) > 1
        if are_several:
            check_sizes([batch for batch, _ in batches], limit)
        confirmation, count = None, 0
        batches.reverse()
        while batches:
            batch, topics = batches.pop()  # forgotten one by one, as they may say very much
            try:
                if are_several or codec or not commit.is_one_piece:
                    yield
                    self._check_again(shard, commit, topics)
                confirmation = self._append(shard, batch, verification)
            except KafkaError as error:
                if not counts_partly(commit, count, error):
                    raise
                codes = yield from partly(codes, count, error.code)
                break
            shard.apply_offsets(commit.group_id, topics, commit.producer)
            count += sum(len(each.partitions) for each in topics)
        return self._log.written(codes, confirmation)

    def _remove_offsets(
        self,
        shard: GroupShard,
        group_id: str,
        topics: Mapping[str, Sequence[int]],
        check: Callable[[], None],
    ) -> Work[Confirmation | None]:
        """Append tombstones for offsets and take them over; `check` raises if that is not allowed.

        Raises:
            KafkaError: as `_write`, and as `check`.
        """
        limit, codec = self._batch_bytes_max(shard), self._config.offsets_topic_compression_codec
        now_ms = self._clock.wall_ms()
        packer = OffsetPacker(group_id, now_ms, codec=codec, bytes_max=record_bytes_max(limit))
        for topic, partitions in topics.items():
            for start in range(0, len(partitions), _REMOVED_AT_ONCE):
                packer.add_tombstones(topic, partitions[start : start + _REMOVED_AT_ONCE])
                yield
        batches = yield from packer.batches()
        check_sizes([batch for batch, _ in batches], limit)
        confirmation = None
        for batch, removed in batches:
            yield
            self._check_leads(shard)
            check()
            confirmation = self._append(shard, batch)
            shard.remove_offsets(group_id, removed)
        return confirmation

    def _check_again(self, shard: GroupShard, commit: Commit, topics: list[TopicValues]) -> None:
        """Check again what may be committed: other requests ran meanwhile.

        Raises:
            KafkaError: what comes next may not be committed any more.
        """
        self._check_leads(shard)
        check = shard.check_commit(commit.group_id, commit.committer)
        if check is None:
            return
        for topic in topics:
            for partition in set(topic.partitions):
                code = check(topic.topic_id, partition)
                if code is not ErrorCode.none:
                    raise KafkaError(code)

    @property
    def has_unconfirmed(self) -> bool:
        """Whether some of what was written is not yet on all in-sync replicas."""
        return self._log.has_unconfirmed

    async def all_confirmed(self) -> None:
        """Wait until all in-sync replicas have what is written now.

        Raises:
            KafkaError: NOT_COORDINATOR, that takes too long.
        """
        await self._log.all_confirmed()


def _refuse(answers: Sequence[Answer], error: KafkaError) -> None:
    for answer in answers:
        if not answer.waiter.done():
            answer.waiter.set_exception(error)
