"""The state of one partition's log: its segments, its offsets, its producers.

Owns no file operation. `PartitionLog` has those; the large ones (truncation, expiry, the swap of
segments, a clean shutdown) have files of their own, which work on this state.
"""

from __future__ import annotations

from uuid import UUID

from drumlin.config.topic import LogConfig
from drumlin.storage.durability import Durability
from drumlin.storage.leader_epochs import LeaderEpochs
from drumlin.storage.log_directory import LogDirectory
from drumlin.storage.pending_swap import SegmentSwaps
from drumlin.storage.producer_state import ProducerState
from drumlin.storage.roll_rule import RollRule
from drumlin.storage.segment_list import SegmentList


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
        #: First offset that not all in-sync replicas have, as far as this one knows.
        self.high_watermark = 0
        self.leader_epochs = LeaderEpochs()
        self.producer_state = ProducerState()
        self.is_deleted = False
        #: Where a new leader epoch has to begin before the log is served, because records are lost.
        self.epoch_due_at: int | None = None
        self.swaps = SegmentSwaps()
        self.truncations = 0
        #: Whether it was cut, and the rest of the truncation is still to come.
        self.is_being_cut = False
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
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    @property
    def recovery_point(self) -> int:
        """Everything below this offset is on the device."""
        return self.durability.recovery_point

    def delete_records_before(self, offset: int) -> None:
        """Advance the log start offset; the next retention deletes the segments below it."""
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.leader_epochs.truncate_from_start(offset)
