"""Stores for the committed state of a partition, with a checkpoint in the changelog.

A store must never have a change that is not committed in the changelog. So it can only be behind
the log, and applying the rest of the log updates it. Changes and checkpoint are stored atomically.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol

_DIGEST_BYTES: Final = 16


class Checkpoint(NamedTuple):
    """A store's position in the changelog, with details to detect a changed log."""

    topic_id: str  # empty: the cluster has no topic ids
    #: The store has the latest value of each key before this offset.
    offset: int
    #: A time (milliseconds since 1970) when nothing was committed yet at `offset` or later. Later
    #: tombstones stay in the log for at least delete.retention.ms.
    since_ms: int
    #: The value of the last record with POSITION_KEY; None: there was none.
    position: bytes | None
    #: The offset and the digest of the last record in the store; -1: unknown.
    last_offset: int = -1
    last_digest: bytes = b""
    #: The leader epoch when the store was written, as known before the write; the real one may be
    #: later. -1: unknown.
    leader_epoch: int = -1


def now_ms() -> int:
    """The current time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def digest(key: bytes | None, value: bytes | None) -> bytes:
    """A digest that identifies a record."""
    parts = b"".join(
        b"-" if part is None else b"%d:%b" % (len(part), part) for part in (key, value)
    )
    return hashlib.blake2b(parts, digest_size=_DIGEST_BYTES).digest()


class Store(Protocol):
    """The committed keys and values of one partition."""

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The position in the changelog; None: the store is empty or only partly loaded."""

    def get(self, key: bytes, default: Any = None, /) -> Any:
        """The value of a key, or `default` if the key is missing."""

    def get_many(self, keys: Collection[bytes]) -> Mapping[bytes, bytes]:
        """The values of those `keys` that exist."""

    def __len__(self) -> int: ...

    def keys(self) -> Iterable[bytes]:
        """All keys, in no particular order."""

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """All keys that begin with `prefix`, with their values, in no particular order."""

    def apply(self, changes: Mapping[bytes, bytes | None], checkpoint: Checkpoint | None) -> None:
        """Apply changes and set the checkpoint atomically. A value of None deletes its key.

        The checkpoint is None during a full load, which has to start over if interrupted.
        """

    def clear(self) -> None:
        """Delete everything, including the checkpoint."""

    def close(self) -> None:
        """Release the resources that the store uses in this process."""


class MemoryStore:
    """A store in memory, lost when the process ends."""

    def __init__(self, values: Mapping[bytes, bytes] | None = None) -> None:
        self._values: dict[bytes, bytes] = dict(values or {})
        self.checkpoint: Checkpoint | None = None
        #: The dictionary's own method, as a wrapper would slow down each lookup.
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
        values.update(changes)  # type: ignore[arg-type]  # None is deleted just below
        for key in gone:
            del values[key]
        self.checkpoint = checkpoint

    def clear(self) -> None:
        self._values.clear()
        self.checkpoint = None

    def close(self) -> None:
        self.clear()
