"""The verification of a transaction before its first batch enters the log (KIP-890).

A transactional batch needs a transaction: one that is open in the log, or one that the coordinator
has just confirmed as ongoing. Between that answer and the append a marker may end the transaction,
and the next transaction may not include the partition. So the answer is only valid while its
verification is still the producer's: a marker removes it, and so does the first append.
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
        """Whether the producer uses transactions v2: each one has its own epoch, and starts with
        sequence 0."""
        self.began_ms = began_ms
        self.askers = 1
        """The number of batches that are being verified, without withdrawn ones."""

    def ask_again(self, producer_epoch: int, sequence: int) -> None:
        """Verify another batch as well: the one with the lowest sequence must be appended first."""
        self.askers += 1
        if producer_epoch > self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.lowest_sequence = sequence
        elif producer_epoch == self.producer_epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)

    def is_ended_by_marker(self, producer_epoch: int) -> bool:
        """Whether a marker with this epoch may have ended the transaction being verified.

        In transactions v2 a marker ends the transaction of the previous epoch.
        """
        return not (self.supports_epoch_bump and producer_epoch == self.producer_epoch)


#: Stands for no verification: it is disabled, or was done elsewhere.
NOT_REQUIRED: Final = Verification(-1, _ANY_SEQUENCE, supports_epoch_bump=False, began_ms=0)
