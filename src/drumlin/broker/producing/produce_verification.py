"""Verification of transactional batches before they enter a log (KIP-890).

The first batch of a transaction in a partition is held back until the transaction coordinator has
confirmed that the partition is part of it (or, in transactions v2, has added it). This prevents
transactions in a log that would never end there. The `Verification` begins before the coordinator
is asked, and notices changes of the log meanwhile.

Later batches find the transaction open in the log, and need no verification.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from drumlin.broker.parts.parts import Coordinators
from drumlin.broker.producing.transaction_checks import ask_coordinator, not_confirmed
from drumlin.coordination.shards.state_batches import Producer
from drumlin.records.batch.batch import (
    ATTRIBUTES_LOW_BYTE,
    HEADER_SIZE,
    MAGIC,
    MAGIC_POSITION,
    TRANSACTIONAL_MASK,
    BatchHeader,
    parse_header,
)
from drumlin.replication.partition import Partition
from drumlin.storage.producers.verification import NOT_REQUIRED, Verification
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError

#: From this version of Produce on, clients know TRANSACTION_ABORTABLE.
_ABORTABLE_FROM: Final = 11
#: From this version on, partitions join their transaction with their first batch (KIP-890).
_ADDS_FROM: Final = 12

#: Codes after which the client must retry, without aborting the transaction or refreshing its
#: metadata.
_TO_BE_RETRIED: Final = frozenset(
    {
        ErrorCode.network_exception,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    }
)

#: A partition as a Produce request names it: by its topic's name or id, and its index.
PartKey = tuple[bytes, int]


class Unverified(KafkaError):
    """The coordinator did not confirm the transaction; the client gets the message, too."""


class TransactionalPart(NamedTuple):
    """One transactional batch of a request, and its partition."""

    key: PartKey
    partition: Partition
    header: BatchHeader


@dataclass(slots=True)
class Verified:
    """The verifications of the batches of one request."""

    refused: dict[PartKey, KafkaError] = field(default_factory=dict)
    asked: dict[PartKey, Verification] = field(default_factory=dict)
    is_required: bool = True

    def check(self, key: PartKey) -> Verification | None:
        """The verification with which to append the batch.

        Raises:
            KafkaError: the batch must not be appended.
        """
        error = self.refused.get(key)
        if error is not None:
            raise error
        return self.asked.get(key) if self.is_required else NOT_REQUIRED


def is_transactional(records: memoryview | None) -> bool:
    return (
        records is not None
        and len(records) > ATTRIBUTES_LOW_BYTE
        and bool(records[ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_MASK)
        and records[MAGIC_POSITION] == MAGIC
    )


def header_of(records: memoryview) -> BatchHeader | None:
    """The header of a batch that must be verified; None for any other batch."""
    if not is_transactional(records) or len(records) < HEADER_SIZE:
        return None
    header = parse_header(records)
    # An invalid sequence would count as the lowest one. Later the batch is refused because of it.
    return header if header.has_producer_id and header.base_sequence >= 0 else None


async def begin(broker: Coordinators, version: int, parts: Iterable[TransactionalPart]) -> Verified:
    """Find the batches that the coordinator must verify; see `ask`."""
    is_required = broker.config.transaction_partition_verification_enable
    verified = Verified(is_required=is_required)
    adds = version >= _ADDS_FROM
    if not is_required and not adds:
        return verified
    now_ms = broker.clock.wall_ms()
    for key, partition, header in parts:
        await give_way()
        try:
            verification = partition.begin_verification(
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                now_ms,
                supports_epoch_bump=adds,
            )
        except KafkaError as error:
            verified.refused[key] = error
            continue
        if verification is not None:
            verified.asked[key] = verification
    return verified


async def ask(
    broker: Coordinators,
    version: int,
    transactional_id: str,
    parts: Iterable[TransactionalPart],
    verified: Verified,
) -> None:
    """Ask the coordinator about the batches found by `begin`, and note its refusals."""
    asked: list[TransactionalPart] = []
    partitions: list[tuple[str, int]] = []
    for part in parts:
        if part.key in verified.asked:
            asked.append(part)
            partitions.append((part.partition.topic, part.partition.index))
        await give_way()
    codes = await ask_coordinator(
        broker,
        transactional_id,
        Producer(asked[0].header.producer_id, asked[0].header.producer_epoch),
        partitions,
        adds=version >= _ADDS_FROM,
        knows_abortable=version >= _ABORTABLE_FROM,
    )
    for part in asked:
        await give_way()
        code = codes[part.partition.topic, part.partition.index]
        if code is not ErrorCode.none:
            verified.refused[part.key] = _told(code, version)
            producer_id, verification = part.header.producer_id, verified.asked[part.key]
            withdraw = part.partition.withdrawal_of(producer_id, verification)
            not_confirmed(broker, code, withdraw)


def _told(code: ErrorCode, version: int) -> KafkaError:
    """The error for a producer whose transaction the coordinator did not confirm."""
    if code is ErrorCode.invalid_txn_state:
        return Unverified(code, "the partition is not part of the transaction")
    if code in _TO_BE_RETRIED or (
        code is ErrorCode.concurrent_transactions and version < _ADDS_FROM
    ):
        return Unverified(
            ErrorCode.not_enough_replicas,
            f"the partition may not be part of the transaction: {code.name}",
        )
    return KafkaError(code)
