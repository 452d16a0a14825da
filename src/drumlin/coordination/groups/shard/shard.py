"""The groups of one partition of `__consumer_offsets`, as its leader has them in memory.

Plain synchronous code. Changes of committed offsets, consumer groups and share groups, and removals
of groups, are first written as records; `apply` applies them once they are in the log. So memory is
never ahead of the log. Classic groups are an exception, as in Kafka: new members are in the log
only when the rebalance is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final
from uuid import UUID

from drumlin.coordination.groups.classic.group import Group
from drumlin.coordination.groups.consumer.group import ConsumerGroup
from drumlin.coordination.groups.every_kind.any_group import AnyGroup, Effect
from drumlin.coordination.groups.every_kind.committer import Committer, OffsetCheck
from drumlin.coordination.groups.every_kind.group_context import GroupContext
from drumlin.coordination.groups.every_kind.group_record import GroupRecord, RecordKey
from drumlin.coordination.groups.every_kind.kind import GroupKind
from drumlin.coordination.groups.every_kind.messages import Answer, Answers
from drumlin.coordination.groups.offsets.fetched_offsets import FetchedOffsets, Fetching
from drumlin.coordination.groups.offsets.offset_batches import TopicValues
from drumlin.coordination.groups.offsets.offset_records import (
    OffsetFacts,
    OffsetKey,
    encode_offset,
    facts_of,
)
from drumlin.coordination.groups.offsets.offsets import CommittedOffsets
from drumlin.coordination.groups.offsets.transactional_offsets import TransactionalOffsets
from drumlin.coordination.groups.shard.by_kind import new_group
from drumlin.coordination.groups.shard.log import LoadedPartition
from drumlin.coordination.groups.shard.record_registry import type_of
from drumlin.coordination.groups.share.group import ShareGroup
from drumlin.coordination.shards.state_batches import Producer
from drumlin.turns import give_way, to_end
from drumlin.wire.error_codes import ErrorCode, KafkaError

#: The maximum number of offsets that are removed together, which takes half a turn.
_REMOVED_PER_STEP: Final = 50


class GroupShard:
    """One partition's groups and their offsets."""

    def __init__(self, partition: int, context: GroupContext) -> None:
        self.partition = partition
        self.groups: dict[str, AnyGroup] = {}
        self.offsets = CommittedOffsets()
        self.transactional = TransactionalOffsets()
        self._context = context

    # -- groups ----------------------------------------------------------------------------

    def group(self, group_id: str) -> AnyGroup:
        """
        Raises:
            KafkaError: GROUP_ID_NOT_FOUND.
        """
        group = self.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.group_id_not_found, f"there is no group {group_id}")
        return group

    def classic_group(self, group_id: str) -> Group | None:
        """The group, if it uses the classic protocol; None if there is no group.

        Raises:
            KafkaError: INCONSISTENT_GROUP_PROTOCOL, the group is of another kind.
        """
        group = self.groups.get(group_id)
        if group is None or isinstance(group, Group):
            return group
        raise KafkaError(ErrorCode.inconsistent_group_protocol)

    def consumer_group(self, group_id: str) -> ConsumerGroup | None:
        """The group, if it uses the consumer protocol; else None."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def create_classic(self, group_id: str) -> Group:
        """A new empty group, in memory only."""
        assert group_id not in self.groups
        group = new_group(GroupKind.CLASSIC, group_id, self._context)
        assert isinstance(group, Group)
        self.groups[group_id] = group
        return group

    def replace(self, group: AnyGroup, other: AnyGroup) -> list[Answer | Answers]:
        """Replace a group by another one of the same name. The caller dissolves the former group.

        Returns the answers to the waiting requests of the former group.
        """
        assert self.groups[group.group_id] is group
        self.groups[group.group_id] = other
        return _answers(group.unload(ErrorCode.rebalance_in_progress))

    async def take_over(self, loaded: LoadedPartition) -> None:
        """Fill the shard from the log, over several turns of the loop."""
        for group_id, stored in loaded.groups.items():
            group = new_group(stored.kind, group_id, self._context)
            self.groups[group_id] = group
            await group.restore(stored.records)
        for group_id, topics in loaded.offsets.items():
            self._group_for_offsets(group_id)
            self.offsets.take_group(group_id, topics)
            await give_way()
        for each in loaded.pending:
            self._group_for_offsets(each.key.group_id)
            self.transactional.put(
                each.producer_id, each.key, each.value, is_superseded=each.is_superseded
            )
            await give_way()

    # -- records to write ------------------------------------------------------------------

    def admit_commit(self, group_id: str, committer: Committer) -> OffsetCheck | None:
        """Check that the committer may commit, and inform the group of the commit.

        Returns a check for each partition, if there is one: see `AnyGroup.check_offset_commit`.

        Raises:
            KafkaError: the committer may not commit.
        """
        group = self.groups.get(group_id)
        if group is not None:
            check = group.check_offset_commit(committer)
            group.note_commit(committer)
            return check
        if committer.generation_id >= 0:
            raise KafkaError(ErrorCode.group_id_not_found)
        return None

    def held(self, group_id: str) -> dict[str, list[int]]:
        """The partitions with committed or pending offsets, by topic."""
        held = {topic: list(known) for topic, known in self.offsets.topics(group_id).items()}
        for topic, pending in self.transactional.topics_of(group_id).items():
            held[topic] = list(pending.union(held.get(topic, ())))
        return held

    def delete_group(self, group_id: str) -> list[GroupRecord]:
        """
        Raises:
            KafkaError: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
        """
        group = self.group(group_id)
        group.check_delete()
        records: list[GroupRecord] = [
            (OffsetKey(group_id, topic, partition), None)
            for topic, partitions in self.held(group_id).items()
            for partition in partitions
        ]
        return records + group.tombstones()

    def check_delete_offsets(self, group_id: str, topics: Iterable[str]) -> frozenset[str]:
        """The topics whose offsets must stay, because members read them.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
        """
        group = self.group(group_id)
        group.check_offset_delete()
        return frozenset(filter(group.is_subscribed_to, topics))

    def holds(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether the partition has a committed or pending offset."""
        known = self.offsets.packed(group_id, topic, partition)
        return known is not None or self.transactional.is_pending(
            OffsetKey(group_id, topic, partition)
        )

    def expired(self, group_id: str, retention_ms: int) -> Iterator[list[GroupRecord]]:
        """Tombstones for expired offsets, and for the group if no offset is left.

        Yields a few at a time, chosen from the current state: the caller has written the previous
        tombstones, and other tasks may have run. Offsets of a deleted topic expire at any age.
        """
        now_ms = self._context.clock.expiry.now_ms()
        for step in self._in_steps(group_id):
            group = self.groups.get(group_id)
            if group is None:
                return
            records: list[GroupRecord] = []
            for key, value in step:
                facts = facts_of(value)
                expires_ms = _expires_ms(group, facts, retention_ms)
                is_over = expires_ms is not None and now_ms >= expires_ms
                is_of_use = not is_over or group.is_subscribed_to(key.topic)
                is_kept = is_of_use and not self._is_orphan(facts)
                if not is_kept and not self.transactional.is_pending(key):
                    records.append((key, None))
            yield records
        group = self.groups.get(group_id)
        if group is None:
            return
        holds_some = self.offsets.topics(group_id) or self.transactional.has_open(group_id)
        if not holds_some and group.is_deletable:
            yield group.tombstones()
        elif isinstance(group, ShareGroup):
            yield group.orphans()

    def orphans(self, group_id: str) -> Iterator[list[GroupRecord]]:
        """Tombstones for offsets of deleted topics that the group still has; see `expired`.

        Some are left if tombstones could not be written when the topic was deleted. Pending offsets
        are removed after the end of their transaction.
        """
        for step in self._in_steps(group_id):
            yield [
                (key, None)
                for key, value in step
                if self._is_orphan(facts_of(value)) and not self.transactional.is_pending(key)
            ]
        group = self.groups.get(group_id)
        if isinstance(group, ShareGroup):
            yield group.orphans()

    def _in_steps(self, group_id: str) -> Iterator[list[tuple[OffsetKey, bytes]]]:
        """A group's committed offsets, a few at a time, each time from the current state."""
        for topic in list(self.offsets.topics(group_id)):
            partitions = list(self.offsets.topics(group_id).get(topic, ()))
            for start in range(0, len(partitions), _REMOVED_PER_STEP):
                known = self.offsets.topics(group_id).get(topic, {})
                yield [
                    (OffsetKey(group_id, topic, partition), known[partition])
                    for partition in partitions[start : start + _REMOVED_PER_STEP]
                    if partition in known
                ]

    def _is_orphan(self, facts: OffsetFacts) -> bool:
        topic_id = facts.topic_id
        return topic_id is not None and self._context.topics.was_deleted(topic_id)

    def topic_deleted(self, topic: str, topic_id: UUID) -> Iterator[list[GroupRecord]]:
        """Tombstones for the offsets of a deleted topic, but not of a new one of the same name.

        Yields a few at a time, chosen from the current state. A tombstone removes all offsets of a
        key, committed and pending. So a key that the new topic also uses is kept; `fetch`
        distinguishes the topics.
        """
        gone = (None, topic_id)
        pending = self.transactional.keys_of_topic(
            topic
        )  # read first, as they may be committed meanwhile
        for group_id in list(self.offsets.groups()):
            yield []  # a pause: there may be very many groups, most without the topic
            committed = list(self.offsets.topics(group_id).get(topic, ()))
            yield from self._those_of(
                gone, (OffsetKey(group_id, topic, partition) for partition in committed)
            )
        yield from self._those_of(gone, pending)
        for group in list(self.groups.values()):
            if isinstance(group, ShareGroup):
                yield group.topic_deleted(topic_id)

    def _those_of(
        self, gone: Container[UUID | None], keys: Iterable[OffsetKey]
    ) -> Iterator[list[GroupRecord]]:
        remaining = iter(keys)
        while step := list(islice(remaining, _REMOVED_PER_STEP)):
            yield [(key, None) for key in step if self._is_only_of(gone, key)]

    def _is_only_of(self, gone: Container[UUID | None], key: OffsetKey) -> bool:
        """Whether a key has offsets, and all of them belong to deleted topics."""
        values = list(self.transactional.pending(key))
        known = self.offsets.packed(*key)
        if known is not None:
            values.append(known)
        ids = [facts_of(each).topic_id for each in values]
        return bool(ids) and all(each in gone for each in ids)

    # -- records that were written ---------------------------------------------------------

    def apply(self, records: Iterable[GroupRecord]) -> list[Answer | Answers]:
        """Apply records that have been appended to the log.

        Returns the answers to the waiting requests of removed groups.
        """
        answers: list[Answer | Answers] = []
        for key, value in records:
            if not isinstance(key, OffsetKey):
                answers += self._apply_to_group(key, value)
            elif value is None:
                self.offsets.remove(key)
                self.transactional.remove(key.group_id, key.topic, (key.partition,))
            else:
                self._put_offset(key, encode_offset(value))
                self.transactional.supersede(key.group_id, key.topic, (key.partition,))
        return answers

    def apply_offsets(
        self, group_id: str, committed: Iterable[TopicValues], producer: Producer | None = None
    ) -> None:
        """Like `apply`, for offsets of one group."""
        self._group_for_offsets(group_id)
        transactional = self.transactional
        for topic, _, partitions, values in committed:
            if producer is not None:
                transactional.put_all(producer.producer_id, group_id, topic, partitions, values)
                continue
            self.offsets.put_all(group_id, topic, partitions, values)
            if transactional.is_any_pending:
                transactional.supersede(group_id, topic, partitions)

    def remove_offsets(self, group_id: str, removed: Iterable[TopicValues]) -> None:
        """Like `apply`, for tombstones of offsets of one group."""
        transactional = self.transactional
        for topic, _, partitions, _ in removed:
            self.offsets.remove_all(group_id, topic, partitions)
            if transactional.is_any_pending:
                transactional.remove(group_id, topic, partitions)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Apply the marker that ends a producer's transaction."""
        ended = self.transactional.end(producer_id, is_commit=is_commit)
        for group_id, topic, values in ended:
            self._group_for_offsets(group_id)
            self.offsets.put_all(group_id, topic, values.keys(), values.values())

    def _apply_to_group(self, key: RecordKey, value: Any | None) -> list[Answer | Answers]:
        record_type = type_of(key)
        group = self.groups.get(key.group_id)
        if group is None or group.kind is not record_type.kind:
            if value is not None:
                assert record_type.kind is not None
                group = new_group(record_type.kind, key.group_id, self._context)
                self.groups[key.group_id] = group
                to_end(group.restore([(key, value)]))
            return []  # a tombstone of a group that was removed, or has another kind now
        if value is None and record_type.ends_group:
            del self.groups[key.group_id]
            answers = _answers(group.unload(ErrorCode.rebalance_in_progress))
            to_end(group.dissolve())
            return answers
        group.replay(key, value)
        return []

    def _put_offset(self, key: OffsetKey, value: bytes) -> None:
        self._group_for_offsets(key.group_id)
        self.offsets.put(key, value)

    def _group_for_offsets(self, group_id: str) -> None:
        if group_id not in self.groups:
            self.create_classic(group_id)  # a group that has only offsets, no members

    # -- reading ---------------------------------------------------------------------------

    def fetch(
        self,
        group_id: str,
        topics: Iterable[tuple[str, Sequence[int]]] | None,
        *,
        requires_stable: bool = False,
    ) -> Iterator[FetchedOffsets]:
        """The committed offsets of the requested partitions, or of all partitions with an offset.

        The result is in pieces; see `FetchedOffsets`. With `requires_stable`, the code is
        UNSTABLE_OFFSET_COMMIT for an offset that a transaction may change.
        """
        is_unstable: Callable[[OffsetKey], bool] | None = None
        if requires_stable and self.transactional.has_open(group_id):
            is_unstable = self.transactional.is_pending
        named = topics
        if named is None:
            committed = self.offsets.topics(group_id)
            named = ((topic, list(committed.get(topic, ()))) for topic in list(committed))
        fetching = Fetching(group_id, self.offsets, self._context.topics, is_unstable)
        for topic, partitions in named:
            yield from fetching.pieces(topic, partitions, leaves_out=topics is None)


def _answers(effects: Iterable[Effect]) -> list[Answer | Answers]:
    return [effect for effect in effects if isinstance(effect, (Answer, Answers))]


def _expires_ms(group: AnyGroup, facts: OffsetFacts, retention_ms: int) -> int | None:
    starts_ms = group.retention_starts_ms(facts.commit_timestamp_ms)
    if starts_ms is None:
        return None
    if facts.expire_timestamp_ms is not None:
        return facts.expire_timestamp_ms
    return starts_ms + retention_ms
