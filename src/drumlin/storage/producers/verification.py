"""The verification of a transaction before its first batch enters the log (KIP-890).

A transactional batch needs a transaction: one that is open in the log, or one that the
coordinator has just confirmed as ongoing. Between that answer and the append a marker may end the
transaction, and the next one may not include the partition. So the answer is valid only while the
verification that it was requested for is still the producer's: a marker removes it, and so does the
first batch that is appended.
"""

from __future__ import annotations

from typing import Final

_ANY_SEQUENCE: Final = 2**31 - 1


class Verification:
    """One producer's verification. Compared by identity: a later one is another object."""

    __slots__ = (
        "askers",
        "began_ms",
        "lowest_sequence",
        "producer_epoch",
        "supports_epoch_bump",
    )

    def __init__(
        self, producer_epoch: int, sequence: int, supports_epoch_bump: bool, began_ms: int
    ) -> None:
        self.producer_epoch = producer_epoch
        self.lowest_sequence = sequence
        self.supports_epoch_bump = supports_epoch_bump
        """Transactions v2: every transaction has its own epoch, and begins with sequence 0."""
        self.began_ms = began_ms
        self.askers = 1
        """How many batches were asked about, without those whose asking was withdrawn."""

    def ask_again(self, producer_epoch: int, sequence: int) -> None:
        """Another batch is to be verified: the one with the lowest sequence has to come first."""
        self.askers += 1
        if producer_epoch > self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.lowest_sequence = sequence
        elif producer_epoch == self.producer_epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)

    def is_ended_by_marker(self, producer_epoch: int) -> bool:
        """Whether a marker of that epoch may have ended the transaction being verified.

        In transactions v2 it ends the transaction of the epoch before, not of its own.
        """
        return not (self.supports_epoch_bump and producer_epoch == self.producer_epoch)


#: For batches that need no verification: it is off, or was done elsewhere.
NOT_REQUIRED: Final = Verification(-1, _ANY_SEQUENCE, supports_epoch_bump=False, began_ms=0)
