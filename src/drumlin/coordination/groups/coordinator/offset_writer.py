"""Writes and deletes committed offsets. Very many offsets take several turns of the loop.

Converts a request to batches, and checks again before each batch whether the change is allowed. The
shard makes that decision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from drumlin.clock import Clock
from drumlin.coordination.groups.every_kind.config import CoordinatorConfig
from drumlin.coordination.groups.every_kind.group_record import GroupRecord
from drumlin.coordination.groups.offsets.commit import Commit, counts_partly, partly, sorted_out
from drumlin.coordination.groups.offsets.offset_batches import (
    OffsetBatch,
    OffsetPacker,
    TopicValues,
)
from drumlin.coordination.groups.shard.shard import GroupShard
from drumlin.coordination.shards.pending_answer import Written
from drumlin.coordination.shards.shard_writer import ShardWriter
from drumlin.coordination.shards.state_batches import check_sizes, record_bytes_max
from drumlin.coordination.shards.state_log import StateLog
from drumlin.coordination.shards.state_topic import Confirmation
from drumlin.storage.producers.verification import Verification
from drumlin.turns import emptied, give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError

#: The number of tombstones packed in one turn.
_REMOVED_AT_ONCE: Final = 1000


class OffsetWriter:
    """Writes the offsets in the partitions of `__consumer_offsets` that this broker leads.

    Args:
        writer, log: those of the coordinator.
        clock: wall time, for records.
        config: the length limit of metadata, the compression of batches.
    """

    def __init__(
        self,
        writer: ShardWriter[GroupShard, GroupRecord],
        log: StateLog,
        clock: Clock,
        config: CoordinatorConfig,
    ) -> None:
        self._writer, self._log, self._clock, self._config = writer, log, clock, config

    async def commit(
        self,
        find: Callable[[str], GroupShard],
        commit: Commit,
        verification: Verification | None,
    ) -> Written[list[ErrorCode]]:
        """Append and apply offsets; returns a code for each.

        `find`: returns the shard of a group, or raises if it is not available now.

        Raises:
            KafkaError: no offset is committed; but some offsets of a transaction may be in the log.
        """
        shard = find(commit.group_id)
        check = shard.admit_commit(commit.group_id, commit.committer)
        metadata_max_bytes = self._config.offset_metadata_max_bytes
        codes, accepted = await sorted_out(commit, check, metadata_max_bytes)
        if not accepted:
            return Written(codes)
        led, now_ms = self._writer.led(shard), self._clock.wall_ms()
        limit, codec = led.batch_bytes_max, self._config.offsets_topic_compression_codec
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
                await give_way()
            packer.add(offsets)
        batches = await packer.batches()
        if (
            len(batches) == 1 and commit.is_one_piece and not codec
        ):  # written in the same turn as the check
            confirmation = self._writer.write_batches_at_once(
                shard,
                batches,
                lambda topics, _: shard.apply_offsets(commit.group_id, topics, commit.producer),
                verification,
                led=led,
            )
            return self._log.written(codes, confirmation)
        if len(batches) > 1:
            check_sizes([batch for batch, _ in batches], limit)
        return await self._commit_in_turns(shard, commit, codes, batches, verification)

    async def _commit_in_turns(
        self,
        shard: GroupShard,
        commit: Commit,
        codes: list[ErrorCode],
        batches: list[OffsetBatch],
        verification: Verification | None,
    ) -> Written[list[ErrorCode]]:
        """Append the batches of a commit; returns `codes` if no batch is refused.

        Raises:
            KafkaError: as `commit`.
        """
        count, refusal = 0, ErrorCode.none

        def check_again(topics: list[TopicValues]) -> None:
            self._check_again(shard, commit, topics)

        def take_over(topics: list[TopicValues], _: int) -> None:
            nonlocal count
            shard.apply_offsets(commit.group_id, topics, commit.producer)
            count += sum(len(each.partitions) for each in topics)

        def is_part_enough(error: KafkaError) -> bool:
            nonlocal refusal
            refusal = error.code
            return counts_partly(commit, count, error)

        left = emptied(batches)  # frees each batch once it is written, as it may be large
        confirmation = await self._writer.write_batches(
            shard, left, check_again, take_over, verification, is_part_enough
        )
        if refusal is not ErrorCode.none:
            codes = await partly(codes, count, refusal)
        return self._log.written(codes, confirmation)

    def _check_again(self, shard: GroupShard, commit: Commit, topics: list[TopicValues]) -> None:
        """Check again that the commit is allowed, as other requests have run meanwhile.

        Raises:
            KafkaError: the next batch may no longer be committed.
        """
        self._writer.check_leads(shard)
        check = shard.admit_commit(commit.group_id, commit.committer)
        if check is None:
            return
        for topic in topics:
            for partition in set(topic.partitions):
                code = check(topic.topic_id, partition)
                if code is not ErrorCode.none:
                    raise KafkaError(code)

    async def delete(
        self, shard: GroupShard, group_id: str, requested: Sequence[tuple[str, int]]
    ) -> Written[list[ErrorCode]]:
        """Delete offsets for a client; returns a code for each.

        Raises:
            KafkaError: no offset was deleted, or only the first ones of several batches.
        """
        partitions: dict[str, list[int]] = {}
        for topic, partition in requested:
            held = partitions.setdefault(topic, [])
            if shard.holds(group_id, topic, partition):
                held.append(partition)
            await give_way()
        kept = shard.check_delete_offsets(group_id, partitions)
        chosen = {each: some for each, some in partitions.items() if some and each not in kept}

        def check() -> None:
            if shard.check_delete_offsets(group_id, chosen):
                raise KafkaError(ErrorCode.group_subscribed_to_topic)

        confirmation = await self.remove(shard, group_id, chosen, check)
        refusal = ErrorCode.group_subscribed_to_topic
        codes = [refusal if topic in kept else ErrorCode.none for topic, _ in requested]
        return self._log.written(codes, confirmation)

    async def remove(
        self,
        shard: GroupShard,
        group_id: str,
        topics: Mapping[str, Sequence[int]],
        check: Callable[[], None],
    ) -> Confirmation | None:
        """Append and apply tombstones for offsets; `check` raises if the deletion is not allowed.

        Raises:
            KafkaError: as `ShardWriter.write`, or as `check`.
        """
        limit, now_ms = self._writer.led(shard).batch_bytes_max, self._clock.wall_ms()
        codec = self._config.offsets_topic_compression_codec
        packer = OffsetPacker(group_id, now_ms, codec=codec, bytes_max=record_bytes_max(limit))
        for topic, partitions in topics.items():
            for start in range(0, len(partitions), _REMOVED_AT_ONCE):
                packer.add_tombstones(topic, partitions[start : start + _REMOVED_AT_ONCE])
                await give_way()
        batches = await packer.batches()
        check_sizes([batch for batch, _ in batches], limit)

        def check_again(_: list[TopicValues]) -> None:
            self._writer.check_leads(shard)
            check()

        return await self._writer.write_batches(
            shard,
            batches,
            check_again,
            lambda removed, _: shard.remove_offsets(group_id, removed),
        )
