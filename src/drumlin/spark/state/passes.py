"""The last rows of a log in bounded memory, without a shuffle: by reading it several times. Pure.

A pass keeps the keys of one share, by their hash. If these do not fit, the share is halved: this
pass goes on with one half, and a later one reads the log again for the other.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from drumlin.records.key_shares import SEED_SIZE, key_shares
from drumlin.records.latest_rows import LatestRows

#: There are no more shares than this, whatever the memory is.
_SHARES_MAX: Final = 1 << 16


class _Share(NamedTuple):
    """The keys whose hash falls into this one of `of` shares."""

    number: int
    of: int

    def halves(self) -> tuple[_Share, _Share]:
        return _Share(2 * self.number, 2 * self.of), _Share(2 * self.number + 1, 2 * self.of)


def last_rows(
    read: Callable[[], Iterable[pa.RecordBatch]], memory_bytes: int
) -> Iterator[pa.RecordBatch]:
    """The last row of every key of a log, without tombstones.

    `read` gives the log's rows from the beginning, each time that it is called.
    """
    seed = secrets.token_bytes(SEED_SIZE)
    waiting = [_Share(0, 1)]
    while waiting:
        share, latest = waiting.pop(), LatestRows()
        for batch in read():
            latest.add(_of_share(batch, share, seed))
            if latest.nbytes > memory_bytes:
                latest = _reduced(latest, share, seed)  # of the last rows alone
                while _is_too_large(latest, memory_bytes) and share.of < _SHARES_MAX:
                    share, other = share.halves()
                    waiting.append(other)
                    latest = _reduced(latest, share, seed)
        yield from latest.rows()


def _is_too_large(latest: LatestRows, memory_bytes: int) -> bool:
    """Whether there are many last rows: with room for as many more, it takes a while to fill."""
    return latest.key_count > 1 and latest.nbytes > memory_bytes // 2


def _reduced(latest: LatestRows, share: _Share, seed: bytes) -> LatestRows:
    kept = LatestRows()
    for batch in latest.rows(with_tombstones=True):
        kept.add(_of_share(batch, share, seed))
    return kept


def _of_share(batch: pa.RecordBatch, share: _Share, seed: bytes) -> pa.RecordBatch:
    if share.of == 1:
        return batch
    partitions = batch.column("partition").to_numpy()
    shares = key_shares(batch.column("key"), partitions, seed=seed, count=share.of)
    return batch.filter(pc.equal(pa.array(shares), share.number))
