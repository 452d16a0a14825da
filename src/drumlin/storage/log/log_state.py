"""The state of one partition's log: its segments, its offsets, its producers.

Owns no file operation. `PartitionLog` has those; the large ones (truncation, expiry, the swap of
segments, a clean shutdown) have files of their own, which work on this state.
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


def _nobody(_: int) -> bool:
    return False


class Anew(NamedTuple):
    """What a leader has, of which nothing is known to be in a log that follows it."""

    #: Its id and its leader epoch.
    leader: tuple[int, int]
    begins_at: int
    #: All that was committed before this leader epoch is below.
    goal: int
    why: str
    #: It has deleted all that the log has: then that gives way where there is no room for two.
    is_deleted: bool = False


class LogState:
    """See the module. Changed only on the thread that changes the log."""

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
        #: None: no other replica has to have a record, so the high watermark is the log's end.
        self._high_watermark: int | None = None
        self._high_watermark_before: int | None = None
        #: Whether more may have been committed than it says: it was noted some time before a crash.
        self.is_high_watermark_old = False
        self.leader_epochs = LeaderEpochs()
        self.producer_state = ProducerState()
        self.is_deleted = False
        #: Of a topic that nobody knows: nothing of it is removed.
        self.is_unserved = False
        #: From here on, every tombstone and every marker that was ever in the log is there. Whoever
        #: has records from before may not know of all that they have ended; see `compaction.md`.
        self.deletions_kept_from = 0
        #: The same of a log beside it, to which a crash may lead (`log_copy.py`).
        self.deletions_kept_beside = 0
        #: Another number after each time that some were dropped. It begins anywhere: after a
        #: restart it is to be none of those before.
        self.deletion_drops = secrets.randbits(_DROPS_BITS)
        #: From this end offset on, every state that the log had can be read off it as it is now;
        #: `UNKNOWN_YET` until it is led (`settle_exact_states`). See `compaction.md`.
        self.exact_from = 0
        #: Whether a follower that is on its way here has not got to an offset yet.
        self.has_follower_below: Callable[[int], bool] = _nobody
        #: Where a new leader epoch has to begin before the log is served, because records are lost.
        self.epoch_due_at: int | None = None
        #: Why all is to be fetched anew. Until that is done, nothing is fetched into this log in
        #: that leader epoch: the leader believes of a follower that is ahead of where it was last
        #: that it has fetched all in between, and that may be in a copy which was dropped.
        self.anew: Anew | None = None
        self.swaps = SegmentSwaps()
        self.truncations = 0
        #: Whether it was cut, or replaced, and the rest of that is still to come.
        self.is_being_cut = False
        #: Whether it changes its log dir just now, and takes no batch (`log_move.py`).
        self.is_moving = False
        self.durability = Durability(path, log_directory.files)
        #: Whether it has sealed segments that wait to be flushed in the background.
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
        """First offset that not all in-sync replicas have; any thread may ask.

        Records from here on may still vanish: no consumer reads them, and nothing cleans or expires
        them. The replication layer says where it is.
        """
        known = self._high_watermark
        if known is None:
            known = self._high_watermark_before  # as long as nobody says whether there are others
            if known is None:
                return self.log_end_offset
            return min(max(known, self.log_start_offset), self.log_end_offset)
        return known

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None:
        self._high_watermark = offset
        self.is_high_watermark_old = False

    def high_watermark_is_at_most(self, end_offset: int) -> None:
        """The log has lost what was from `end_offset` on."""
        if self._high_watermark is not None:
            known = min(self._high_watermark, end_offset)
            self._high_watermark = max(known, self.log_start_offset)

    def load_high_watermark(self, checkpoint: int) -> None:
        """Take note of where it was when that was last written down."""
        self._high_watermark_before = checkpoint

    def expect_replicas(self) -> None:
        """Other brokers have replicas: only what was known to be everywhere counts at first."""
        if self._high_watermark is None:
            known = self._high_watermark_before
            if known is None:  # all of it was committed while there was no other
                known = self.log_end_offset
            self._high_watermark = min(max(known, self.log_start_offset), self.log_end_offset)

    def forget_replicas(self) -> None:
        """No other broker has a replica: from now on the high watermark is the log's end."""
        self._high_watermark = self._high_watermark_before = None
        self.awaits_nobody()

    def awaits_nobody(self) -> None:
        """No follower is on its way here."""
        self.has_follower_below = _nobody

    def note_deletions_dropped(self, end_offset: int) -> None:
        """Tombstones or markers may be gone that were before `end_offset`."""
        self.deletions_kept_from = max(self.deletions_kept_from, end_offset)
        self.deletion_drops += 1

    @property
    def deletions_kept_after_crash(self) -> int:
        """`deletions_kept_from` of what a crash leaves now: it may complete a swap under way."""
        pending = self.swaps.pending  # before: it is noted here before it is not pending any more
        dropped_before = 0 if pending is None else pending.drops_deletions_before
        return max(self.deletions_kept_from, dropped_before, self.deletions_kept_beside)

    def note_states_cleaned(self, round_end_offset: int) -> None:
        """Records are gone which others took the place of, or deleted, before this offset."""
        self.exact_from = max(self.exact_from, round_end_offset)

    def note_states_lost(self) -> None:
        """Records are gone, and nothing here tells up to where that changes what the log tells."""
        self.exact_from = UNKNOWN_YET

    def settle_exact_states(self) -> None:
        """The log is led: states that it will have from now on are exact, whatever was lost.

        Whoever led it before has cleaned only what was decided, and all of that is here.
        """
        undecided = self.producer_state.first_undecided_offset
        stable_end = self.log_end_offset if undecided is None else undecided
        self.exact_from = min(self.exact_from, stable_end)

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    @property
    def recovery_point(self) -> int:
        """Everything below this offset is on the device."""
        return self.durability.recovery_point

    def delete_records_before(self, offset: int) -> None:
        """Advance the log start offset; the next retention deletes the segments below it.

        Leader epochs stay as long as their records: after a crash the log may start before.
        """
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.note_states_lost()
