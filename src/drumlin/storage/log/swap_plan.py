"""The file `segment-swap`, the plan of a segment swap, which is written before the swap begins.

Once the plan is durable the swap counts as done, and a start after a crash completes it; until then
no old segment is changed. So it does not matter which of the renames are durable, nor their order.
All files in the plan were synced before. A plan in the folder of another topic (with the same name,
created again at that moment) is ignored.

    0                             version
    ABEiM0RVZneImaq7zN3u_w        id of the topic, as in `partition.metadata`
    2 3                           the numbers of base offsets and of file names that follow
    0                             base offsets of the old segments
    1000
    00000000000000000000.log      files of the new segments: still named `.cleaned` or `.swap`,
    00000000000000000000.index    or renamed already
    00000000000000000000.timeindex
"""

from __future__ import annotations

import logging
from typing import Final, NamedTuple
from uuid import UUID

from drumlin.storage.directory.partition_metadata import (
    NO_TOPIC_ID,
    decode_uuid,
    encode_uuid,
    read_topic_id,
)
from drumlin.storage.files.files import Files
from drumlin.storage.producers.producer_snapshot import snapshot_path
from drumlin.storage.segment.offset_index import OffsetIndex
from drumlin.storage.segment.segment_files import LOG_SUFFIX, file_prefix
from drumlin.storage.segment.time_index import TimeIndex
from drumlin.storage.segment.transaction_index import TransactionIndex

_logger = logging.getLogger(__name__)

FILE_NAME: Final = "segment-swap"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
_VERSION: Final = 0
_SUFFIXES: Final = (LOG_SUFFIX, OffsetIndex.SUFFIX, TimeIndex.SUFFIX, TransactionIndex.SUFFIX)


class SwapPlan(NamedTuple):
    """A plan to replace the segments at `old_base_offsets` by those made of `new_files`."""

    topic_id: UUID
    old_base_offsets: tuple[int, ...]
    new_files: tuple[str, ...]

    def encode(self) -> bytes:
        counts = f"{len(self.old_base_offsets)} {len(self.new_files)}"
        lines = [str(_VERSION), encode_uuid(self.topic_id), counts]
        lines += [*map(str, self.old_base_offsets), *self.new_files]
        return ("\n".join(lines) + "\n").encode()

    @classmethod
    def decode(cls, content: bytes) -> SwapPlan:
        """Decode a plan.

        Raises:
            ValueError: the file is not a plan, or is cut off.
        """
        version, topic_id, counts, *rows = content.decode("ascii").splitlines()
        old_count, new_count = map(int, counts.split(" "))
        if int(version) != _VERSION or len(rows) != old_count + new_count:
            raise ValueError("not a plan of version 0")
        old, new = rows[:old_count], rows[old_count:]
        return cls(decode_uuid(topic_id), tuple(map(int, old)), tuple(new))

    def is_of(self, topic_id: UUID) -> bool:
        """Whether the plan belongs to this topic; an unknown id on either side matches."""
        return NO_TOPIC_ID in (self.topic_id, topic_id) or self.topic_id == topic_id

    def gone_base_offsets(self) -> list[int]:
        """The old base offsets at which no new segment begins."""
        return [
            offset
            for offset in self.old_base_offsets
            if file_prefix(offset) + LOG_SUFFIX not in self.new_files
        ]


def remove_snapshots(path: str, plan: SwapPlan, files: Files) -> None:
    """Remove the producer snapshots at `gone_base_offsets`."""
    for offset in plan.gone_base_offsets():
        files.remove(snapshot_path(path, offset))


def complete_swap(path: str, files: Files) -> bool:
    """Complete the plan in a partition folder, if there is one, and remove it.

    If a crash interrupts this, the next start does the same again.

    Returns:
        Whether there was a plan to complete.
    """
    plan_path = f"{path}/{FILE_NAME}"
    try:
        plan = SwapPlan.decode(files.read_file(plan_path))
    except FileNotFoundError:
        return False
    except ValueError as error:
        _logger.error("%s is ignored: %s", plan_path, error)
        return False
    if not plan.is_of(read_topic_id(path, files)):
        _logger.warning("%s belongs to an earlier topic of that name, and is removed", plan_path)
        files.remove(plan_path)
        files.sync_directory(path)
        return False
    names = set(files.list_directory(path))
    for name in plan.new_files:
        for suffix in (CLEANED_SUFFIX, SWAP_SUFFIX):
            if name + suffix in names:
                files.rename(f"{path}/{name}{suffix}", f"{path}/{name}")
    for offset in plan.old_base_offsets:
        for suffix in _SUFFIXES:
            name = file_prefix(offset) + suffix
            if name not in plan.new_files:
                files.remove(f"{path}/{name}")
    remove_snapshots(path, plan, files)
    files.sync_directory(path)
    files.remove(plan_path)
    files.sync_directory(path)
    _logger.info("%s: completed a swap of segments at %s", path, plan.old_base_offsets)
    return True
