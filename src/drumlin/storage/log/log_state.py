"""The state of one partition's log: its segments, its offsets, its producers.

Owns no file operation. `PartitionLog` has those; the large ones (truncation, expiry, segment swap,
clean shutdown) are modules of their own, which work on this state.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final, NamedTuple
from uuid import UUID

from drumlin.config.topic import LogConfig
from drumlin.storage.directory.log_directory import LogDirectory
from drumlin.storage.log.durability import Durability
from drumlin.storage.log.leader_epochs import LeaderEpochs
from drumlin.storage.log.pending_swap import SegmentSwaps
from drumlin.storage.producers.producer_state import ProducerState
from drumlin.storage.segment.roll_rule import RollRule
from drumlin.storage.segment.segment_list import SegmentList
from drumlin.wire.exact_from import UNKNOWN_YET

_DROPS_BITS: Final = 32


def _no_follower(_: int) -> bool:
    return False


class Refetch(NamedTuple):
    """The reason to fetch a whole log anew from its leader."""

    #: The leader's id, and its leader epoch.
    leader: tuple[int, int]
    #: The leader's log start offset.
    begins_at: int
    #: An offset above all records that were committed before this leader epoch.
    goal: int
    why: str
    #: Whether the leader has deleted all records of this log, so that it may be dropped at once if
    #: there is no space for two logs.
    is_deleted: bool = False


class LogState:
    """The state, which only one thread, the broker's loop, may change."""

    def __init__(
        self,
        log_directory: LogDirectory,
        path: str,
        topic: str,
        partition: int,
        topic_id: UUID,
        config: LogConfig,
        segments: SegmentList,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.name = f"{topic}-{partition}"
        self.topic_id = topic_id
        self.log_directory = log_directory
        self.path = path
        self.segments = segments
        self.log_start_offset = 0
        self.log_end_offset = 0
        #: None without other replicas: then the high watermark is the log end offset.
        self._high_watermark: int | None = None
        self._high_watermark_before: int | None = None
        #: Whether the high watermark is still a checkpoint's; more records may be committed by now.
        self.is_high_watermark_old = False
        self.leader_epochs = LeaderEpochs()
        self.producer_state = ProducerState()
        self.is_deleted = False
        #: Whether the log's topic is unknown: then none of its records are removed.
        self.is_unserved = False
        #: From this offset on, no tombstone or marker has ever been removed from the log. A replica
        #: that ends before it may lack deletions of its records; see `compaction.md`.
        self.deletions_kept_from = 0
        #: `deletions_kept_from` of a copy, which a crash may turn into the log (`log_copy.py`).
        self.deletions_kept_beside = 0
        #: Changes whenever tombstones or markers are removed. It starts at a random number, to
        #: differ from all values before a restart.
        self.deletion_drops = secrets.randbits(_DROPS_BITS)
        #: From this end offset on, every past state can be computed from the log as it is now;
        #: `UNKNOWN_YET` until this broker leads it (`settle_exact_states`). See `compaction.md`.
        self.exact_from = 0
        #: Returns whether a follower that is catching up is still below an offset.
        self.has_follower_below: Callable[[int], bool] = _no_follower
        #: The start of a new leader epoch that is needed before serving, because records are lost.
        self.epoch_due_at: int | None = None
        #: The reason to fetch the whole log anew. In that leader epoch nothing may be fetched into
        #: this log: a leader assumes that a follower has fetched everything up to its position,
        #: but some of it may have been in a copy that was dropped.
        self.refetch: Refetch | None = None
        self.swaps = SegmentSwaps()
        self.truncations = 0
        #: Whether the log was cut or replaced, and the remaining steps are pending.
        self.is_being_cut = False
        #: Whether the log is changing its log dir, so that appends must wait (`log_move.py`).
        self.is_moving = False
        self.durability = Durability(path, log_directory.files)
        #: Whether sealed segments wait for the background flush.
        self.awaits_flush = False
        self.config = config

    def __repr__(self) -> str:
        return f"<log {self.name} {self.log_start_offset}..{self.log_end_offset}>"

    @property
    def config(self) -> LogConfig:
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self.roll_rule = RollRule(config)
        self.append_rules = config.append_rules()

    @property
    def high_watermark(self) -> int:
        """The first offset that some in-sync replica lacks. Thread-safe.

        Records from here on may still be lost: consumers must not read them, nor may compaction or
        retention remove them. The replication layer sets it.
        """
        known = self._high_watermark
        if known is None:
            known = (
                self._high_watermark_before
            )  # until replication reports whether there are others
            if known is None:
                return self.log_end_offset
            return min(max(known, self.log_start_offset), self.log_end_offset)
        return known

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None:
        self._high_watermark = offset
        self.is_high_watermark_old = False

    def high_watermark_is_at_most(self, end_offset: int) -> None:
        """Lower the high watermark, after records from `end_offset` on were lost."""
        if self._high_watermark is not None:
            known = min(self._high_watermark, end_offset)
            self._high_watermark = max(known, self.log_start_offset)

    def load_high_watermark(self, checkpoint: int) -> None:
        """Load the high watermark from its checkpoint."""
        self._high_watermark_before = checkpoint

    def expect_replicas(self) -> None:
        """Expect other replicas: until they report, the last known high watermark counts."""
        if self._high_watermark is None:
            known = self._high_watermark_before
            if known is None:  # all records are committed, as there was no other replica
                known = self.log_end_offset
            self._high_watermark = min(max(known, self.log_start_offset), self.log_end_offset)

    def forget_replicas(self) -> None:
        """Continue without other replicas: the high watermark is the log end offset."""
        self._high_watermark = self._high_watermark_before = None
        self.forget_followers()

    def forget_followers(self) -> None:
        """Forget followers that are catching up: another broker leads now."""
        self.has_follower_below = _no_follower

    def note_deletions_dropped(self, end_offset: int) -> None:
        """Note that tombstones or markers before `end_offset` may have been removed."""
        self.deletions_kept_from = max(self.deletions_kept_from, end_offset)
        self.deletion_drops += 1

    @property
    def deletions_kept_after_crash(self) -> int:
        """`deletions_kept_from` after a crash now: the next start may complete a pending swap."""
        pending = self.swaps.pending  # read first: a swap is noted here before it stops pending
        dropped_before = 0 if pending is None else pending.drops_deletions_before
        return max(self.deletions_kept_from, dropped_before, self.deletions_kept_beside)

    def note_states_cleaned(self, round_end_offset: int) -> None:
        """Note that records superseded or deleted before this offset were removed."""
        self.exact_from = max(self.exact_from, round_end_offset)

    def note_states_lost(self) -> None:
        """Note that records were lost, so that no past state is known to be exact."""
        self.exact_from = UNKNOWN_YET

    def settle_exact_states(self) -> None:
        """Guarantee exact states from the last stable offset on: this broker leads the log now.

        Earlier leaders have only cleaned records below their last stable offset, and the log has
        everything up to there.
        """
        undecided = self.producer_state.first_undecided_offset
        stable_end = self.log_end_offset if undecided is None else undecided
        self.exact_from = min(self.exact_from, stable_end)

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    @property
    def recovery_point(self) -> int:
        """The offset below which everything is durable."""
        return self.durability.recovery_point

    def delete_records_before(self, offset: int) -> None:
        """Advance the log start offset; the next retention round deletes the segments below it.

        Leader epochs stay as long as their records, since after a crash the log may start earlier.
        """
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.note_states_lost()
