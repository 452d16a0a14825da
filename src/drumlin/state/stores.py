"""Where the committed part of a partition's state is kept, and how far in the changelog it goes.

A store must never have a change that is not committed in the changelog, so it can only be behind
the log, and the log's end brings it up to date. Changes and checkpoint are one atomic step.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol

_DIGEST_BYTES: Final = 16


class Checkpoint(NamedTuple):
    """How far in the changelog a store is, and how to tell that it is still the same log."""

    topic_id: str  # empty: the cluster has no topic ids
    #: The store has the last value of each key among the records before this offset.
    offset: int
    #: At this time (milliseconds since 1970) nothing was committed at `offset` or later. Tombstones
    #: that were written since then are in the log for delete.retention.ms at least.
    since_ms: int
    #: The value of the last record with POSITION_KEY; None: there was none.
    position: bytes | None
    #: The offset and the digest of the last record that the store has; -1: not known.
    last_offset: int = -1
    last_digest: bytes = b""


def now_ms() -> int:
    """The time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def digest(key: bytes | None, value: bytes | None) -> bytes:
    """A digest of a record, to recognize it."""
    parts = b"".join(
        b"-" if part is None else b"%d:%b" % (len(part), part) for part in (key, value)
    )
    return hashlib.blake2b(parts, digest_size=_DIGEST_BYTES).digest()


class Store(Protocol):
    """The committed keys and values of one partition."""

    @property
    def checkpoint(self) -> Checkpoint | None:
        """How far the store is; None: it is empty, or was not loaded to the end."""

    def get(self, key: bytes, default: Any = None, /) -> Any:
        """The value of a key, or `default` if it has none."""

    def get_many(self, keys: Collection[bytes]) -> Mapping[bytes, bytes]:
        """The values of those keys that have one."""

    def __len__(self) -> int: ...

    def keys(self) -> Iterable[bytes]:
        """All keys, in no particular order."""

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """All keys that begin with `prefix`, with their values, in no particular order."""

    def apply(self, changes: Mapping[bytes, bytes | None], checkpoint: Checkpoint | None) -> None:
        """Make these changes and set the checkpoint, in one step; None as a value: delete.

        Without a checkpoint the store has to be loaded again if it is not loaded to the end.
        """

    def clear(self) -> None:
        """Delete everything, the checkpoint too."""

    def close(self) -> None:
        """Free what the store takes in this process."""


class MemoryStore:
    """A store in memory, which ends with the process."""

    def __init__(self, values: Mapping[bytes, bytes] | None = None) -> None:
        self._values: dict[bytes, bytes] = dict(values or {})
        self.checkpoint: Checkpoint | None = None
        #: The dictionary's own method, as a wrapper would slow down each look-up.
        self.get = self._values.get

    def get_many(self, keys: Collection[bytes]) -> Mapping[bytes, bytes]:
        values = self._values
        return {key: values[key] for key in keys if key in values}

    def __len__(self) -> int:
        return len(self._values)

    def keys(self) -> Iterable[bytes]:
        return self._values.keys()

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        return (each for each in self._values.items() if each[0].startswith(prefix))

    def apply(self, changes: Mapping[bytes, bytes | None], checkpoint: Checkpoint | None) -> None:
        values = self._values
        gone = [key for key, value in changes.items() if value is None]
        values.update(changes)  # type: ignore[arg-type]  # the others are deleted just below
        for key in gone:
            del values[key]
        self.checkpoint = checkpoint

    def clear(self) -> None:
        self._values.clear()
        self.checkpoint = None

    def close(self) -> None:
        self.clear()
