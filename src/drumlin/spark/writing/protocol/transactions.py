"""The transactions of a sink: their identity, and the content of winners. Plain values."""

from __future__ import annotations

from typing import NamedTuple


class Opened(NamedTuple):
    """A transaction: any process that may write under the id may end it."""

    transactional_id: str
    producer_id: int
    epoch: int


class Winner(NamedTuple):
    """A task's winning transaction, and its content. `part`: the write, if there are several."""

    part: str
    partition: int
    transactional_id: str
    producer_id: int
    epoch: int
    rows: int
    checksum: str

    @property
    def key(self) -> tuple[str, int]:
        return self.part, self.partition

    @property
    def opened(self) -> Opened:
        return Opened(self.transactional_id, self.producer_id, self.epoch)

    def has_the_rows_of(self, other: Winner) -> bool:
        """Whether both hold the same rows, as far as count and checksum can tell."""
        return (self.rows, self.checksum) == (other.rows, other.checksum)
