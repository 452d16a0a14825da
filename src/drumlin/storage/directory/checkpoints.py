"""The offset checkpoints of a log dir: a small text file for each kind of offset.

Kafka's format: version 0, the number of entries, then a line `topic partition offset` for each. A
file is replaced atomically, so a crash leaves the old one or the new one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Container, Mapping
from typing import Final

from drumlin.records.batch.varint import INT64_MAX
from drumlin.storage.files.files import Files

_logger = logging.getLogger(__name__)

RECOVERY_POINT: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARK: Final = "replication-offset-checkpoint"
LOG_START_OFFSET: Final = "log-start-offset-checkpoint"
CLEANER_OFFSET: Final = "cleaner-offset-checkpoint"
#: Drumlin's own: the delete horizons of cleaned logs, in ms.
DELETE_HORIZON: Final = "delete-horizon-checkpoint"
#: Drumlin's own. Written before the recovery points, and before deletions are removed.
KEPT_DELETIONS: Final = "kept-deletions-checkpoint"
#: Drumlin's own; only valid if written by a clean shutdown.
EXACT_STATES: Final = "exact-states-checkpoint"
#: Drumlin's own. Only its list of partitions matters; usually there is no such file.
UNCLEAN: Final = "unclean-logs-checkpoint"
ALL: Final = (
    RECOVERY_POINT,
    HIGH_WATERMARK,
    LOG_START_OFFSET,
    CLEANER_OFFSET,
    DELETE_HORIZON,
    KEPT_DELETIONS,
    EXACT_STATES,
    UNCLEAN,
)
_VERSION: Final = 0

PartitionOffsets = Mapping[tuple[str, int], int]


def encode_checkpoint(offsets: PartitionOffsets) -> bytes:
    lines = [str(_VERSION), str(len(offsets))]
    lines += [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    return ("\n".join(lines) + "\n").encode()


def decode_checkpoint(content: bytes) -> dict[tuple[str, int], int]:
    """Decode a checkpoint of Drumlin or Kafka, whose file is empty before its first entry.

    Raises:
        ValueError: the file is not a checkpoint, or is cut off.
    """
    if not content:
        return {}
    lines = content.decode("ascii").split("\n")
    if len(lines) < 2 or int(lines[0]) != _VERSION:
        raise ValueError("not a checkpoint of version 0")
    rows = [line.split(" ") for line in lines[2:] if line]
    if len(rows) != int(lines[1]):
        raise ValueError(f"{lines[1]} entries announced, {len(rows)} found")
    offsets = {(topic, int(partition)): int(offset) for topic, partition, offset in rows}
    if max(offsets.values(), default=0) > INT64_MAX:
        raise ValueError(f"{max(offsets.values())} is no offset")
    return offsets


class Checkpoint:
    """One checkpoint file, with its contents in memory. Thread-safe."""

    def __init__(self, directory: str, name: str, files: Files) -> None:
        self.path = f"{directory}/{name}"
        self._files = files
        self._lock = threading.Lock()
        self._offsets: dict[tuple[str, int], int] | None = None  # None: not read yet
        self._is_behind = False  # the file lacks what `set` could not write

    def read(self) -> dict[tuple[str, int], int]:
        """All offsets; none if the file is missing or broken, which is logged."""
        with self._lock:
            return dict(self._current())

    def write(self, current: Callable[[], PartitionOffsets]) -> None:
        """Replace the file durably, if its contents have changed.

        Args:
            current: returns the new contents; called while no other thread can change the file, so
                that it sees all earlier changes.
        """
        with self._lock:
            offsets = current()
            if offsets != self._current() or self._is_behind:
                self._replace(dict(offsets))

    def get(self, key: tuple[str, int]) -> int | None:
        """The offset of a partition; None if there is none."""
        with self._lock:
            return self._current().get(key)

    def set(self, key: tuple[str, int], offset: int, *, only_if: Callable[[], bool]) -> None:
        """Store the offset of a partition, durably.

        After an `OSError` the offset is kept in memory, and written with the next change or `keep`.

        Args:
            only_if: called while no other thread can change the file. If the partition was deleted
                and created again, its old offset was removed by `lower`, and must not come back.
        """
        with self._lock:
            offsets = self._current()
            if (offsets.get(key) != offset or self._is_behind) and only_if():
                self._change(key, offset)

    def raise_to(self, key: tuple[str, int], offset: int, *, only_if: Callable[[], bool]) -> None:
        """Store a larger offset durably, as `set` does; smaller ones are ignored."""
        with self._lock:
            offsets = self._current()
            if (offsets.get(key, 0) < offset or self._is_behind) and only_if():
                self._change(key, max(offset, offsets.get(key, 0)))

    def keep(self, current: Callable[[], Container[tuple[str, int]]]) -> None:
        """Drop all partitions except those that `current` returns, see `write`."""
        with self._lock:
            keys = current()
            offsets = self._current()
            kept = {key: offset for key, offset in offsets.items() if key in keys}
            if len(kept) < len(offsets) or self._is_behind:
                self._replace(kept)

    def lower(self, key: tuple[str, int], offset: int) -> None:
        """Store a smaller offset durably, as `set` does; larger ones are ignored."""
        with self._lock:
            offsets = self._current()
            if offsets.get(key, 0) > offset:
                self._change(key, offset)
            elif self._is_behind:
                self._replace(offsets)

    def _change(self, key: tuple[str, int], offset: int) -> None:
        self._offsets, self._is_behind = {**self._current(), key: offset}, True
        self._replace(self._offsets)

    def _replace(self, offsets: dict[tuple[str, int], int]) -> None:
        self._files.replace_file(self.path, encode_checkpoint(offsets))
        self._offsets, self._is_behind = offsets, False

    def _current(self) -> dict[tuple[str, int], int]:
        if self._offsets is None:
            self._offsets = self._load()
        return self._offsets

    def _load(self) -> dict[tuple[str, int], int]:
        try:
            content = self._files.read_file(self.path)
        except FileNotFoundError:
            return {}
        try:
            return decode_checkpoint(content) if content else {}
        except ValueError as error:
            _logger.warning("%s is ignored: %s", self.path, error)
            return {}
