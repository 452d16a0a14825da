"""Computing the state of a log in bounded memory: by reading the log several times, or in pieces.

A pass keeps the keys of one share of the hash space. If these take too much memory, the share is
halved: the pass continues with one half, and a later pass reads the log again for the other.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from drumlin.records.latest.key_shares import SEED_SIZE, key_shares
from drumlin.records.latest.latest_rows import LatestRows

#: While a share is halved, its first half exists twice, and freed memory is not reusable at once.
_MEMORY_PART: Final = 1 / 2
_SHARES_MAX: Final = 1 << 20


def passes(
    read: Callable[[], Iterable[pa.RecordBatch]], memory_bytes: int | None
) -> Iterator[LatestRows]:
    """The state of a log, in parts with different keys, one for each pass.

    Args:
        read: reads the log from the beginning at each call; returns rows for `LatestRows`.
        memory_bytes: the limit for a pass, unless it has only one key; None: a single pass.
    """
    seed = os.urandom(SEED_SIZE)
    waiting = [_Share(0, 1)]
    while waiting:
        share, latest = waiting.pop(), LatestRows()
        for batch in read():
            latest.add(share.of(batch, seed))
            while _is_too_large(latest, share, memory_bytes):
                share, other = share.halves()
                waiting.append(other)
                latest = _part(latest, share, seed)
        yield latest
        del latest  # as it may be large, and the next pass needs the memory


def pieces(read: Iterable[pa.RecordBatch], memory_bytes: int) -> Iterator[LatestRows]:
    """The last rows, with tombstones, of each piece of a log, in a single reading.

    Rows of a later piece replace those of earlier pieces: the caller may put them into a store.

    Args:
        read: rows for `LatestRows`.
        memory_bytes: the limit for a piece, unless it has only one batch.
    """
    latest = LatestRows()
    for batch in read:
        latest.add(batch)
        if latest.outgrow(int(_MEMORY_PART * memory_bytes)):
            yield latest
            latest = LatestRows()
    yield latest


def _is_too_large(latest: LatestRows, share: _Share, memory_bytes: int | None) -> bool:
    return (
        memory_bytes is not None
        and latest.key_count > 1
        and share.count < _SHARES_MAX
        and latest.outgrow(int(_MEMORY_PART * memory_bytes))
    )


def _part(latest: LatestRows, share: _Share, seed: bytes) -> LatestRows:
    kept = LatestRows()
    for rows in latest.rows(with_tombstones=True):
        kept.add(share.of(rows, seed))
    return kept


@dataclass(frozen=True, slots=True)
class _Share:
    """One of `count` equal parts of the hash space."""

    number: int
    count: int

    def halves(self) -> tuple[_Share, _Share]:
        first = 2 * self.number
        return _Share(first, 2 * self.count), _Share(first + 1, 2 * self.count)

    def of(self, batch: pa.RecordBatch, seed: bytes) -> pa.RecordBatch:
        """The rows whose keys are in this share."""
        if self.count == 1:
            return batch
        shares = key_shares(batch.column("key"), None, seed=seed, count=self.count)
        return batch.filter(pa.array(shares == self.number))
