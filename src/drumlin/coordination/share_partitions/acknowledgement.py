"""What a member says of records that it was given, checked against what is in flight.

Nothing is changed by a request of which any part is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from drumlin.coordination.share_partitions.in_flight import Change, RecordState, Run, Runs
from drumlin.coordination.share_partitions.settings import Settings
from drumlin.turns import Work
from drumlin.wire.errors import ErrorCode, KafkaError


class AcknowledgeType(IntEnum):
    """The numbers are the protocol's."""

    GAP = 0  # there is no such record
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


_BECOMES: Final = {
    AcknowledgeType.GAP: RecordState.ARCHIVED,
    AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: RecordState.AVAILABLE,
    AcknowledgeType.REJECT: RecordState.ARCHIVED,
}


class Acknowledgement(NamedTuple):
    """Neighbouring records, and one type for all of them or one for each."""

    first_offset: int
    last_offset: int
    types: Sequence[int]


def check_request(
    batches: Sequence[Acknowledgement], *, knows_renew: bool, says_renew: bool
) -> Work[None]:
    """Whether what is said of a partition can be meant at all; in turns, as it may be a lot.

    Raises:
        KafkaError: INVALID_REQUEST.
    """
    highest = AcknowledgeType.RENEW if knows_renew else AcknowledgeType.REJECT
    before = -1
    for batch in batches:
        types = batch.types
        is_sound = (
            before <= batch.first_offset <= batch.last_offset
            and len(types) > 0
            and (len(types) == 1 or len(types) == batch.last_offset - batch.first_offset + 1)
            and all(0 <= each <= highest for each in types)
            and (says_renew or AcknowledgeType.RENEW not in types)
        )
        if not is_sound:
            raise KafkaError(ErrorCode.invalid_request)
        before = batch.last_offset
        yield


def apply(
    runs: Runs,
    start_offset: int,
    member: str,
    batches: Sequence[Acknowledgement],
    settings: Settings,
) -> tuple[Change, list[Run]]:
    """Note what is to become of the records; what is before the start offset is passed over.

    Returns:
        What is to be written, and the runs whose locks begin anew.

    Raises:
        KafkaError: INVALID_RECORD_STATE, INVALID_REQUEST; then nothing is noted.
    """
    change, renewed = Change(), list[Run]()
    try:
        for batch in batches:
            if batch.last_offset >= start_offset:
                _apply_batch(runs, start_offset, member, batch, settings, change, renewed)
    except KafkaError:
        for run in change.runs:
            change.exclude(run)
        raise
    return change, renewed


def _apply_batch(
    runs: Runs,
    start_offset: int,
    member: str,
    batch: Acknowledgement,
    settings: Settings,
    change: Change,
    renewed: list[Run],
) -> None:
    first_offset = max(batch.first_offset, start_offset)
    _check_known(runs, first_offset, batch.last_offset)
    for run in runs.overlapping(first_offset, batch.last_offset):
        if run.state is not RecordState.ACQUIRED:
            raise KafkaError(ErrorCode.invalid_record_state, "the records are not acquired")
        if run.change is not None:
            raise KafkaError(ErrorCode.invalid_record_state, "they are acknowledged already")
        if run.member != member:
            raise KafkaError(ErrorCode.invalid_record_state, "another member has the records")
        run = runs.within(run, first_offset, batch.last_offset)
        for part, kind in _by_type(runs, run, batch):
            if kind is not AcknowledgeType.RENEW:
                change.include(part, *outcome(part, _BECOMES[kind], settings))
            elif settings.may_renew:
                renewed.append(part)
            else:
                raise KafkaError(
                    ErrorCode.invalid_record_state, "locks of this group cannot be renewed"
                )


def _check_known(runs: Runs, first_offset: int, last_offset: int) -> None:
    if runs.floor(first_offset) is None:
        raise KafkaError(ErrorCode.invalid_record_state, "the first record is not in flight")
    known = runs.floor(last_offset)
    if known is None or known.last_offset < last_offset:
        raise KafkaError(ErrorCode.invalid_request, "there are records that nobody has acquired")


def _by_type(runs: Runs, run: Run, batch: Acknowledgement) -> list[tuple[Run, AcknowledgeType]]:
    """The run in parts of one type each."""
    if len(batch.types) == 1:
        return [(run, AcknowledgeType(batch.types[0]))]
    parts: list[tuple[Run, AcknowledgeType]] = []
    types = batch.types[
        run.first_offset - batch.first_offset : run.last_offset - batch.first_offset + 1
    ]
    start = run.first_offset
    for index, kind in enumerate(types):
        if index and kind != types[index - 1]:
            rest = runs.split(run, start + index)
            parts.append((run, AcknowledgeType(types[index - 1])))
            run = rest
    parts.append((run, AcknowledgeType(types[-1])))
    return parts


def outcome(run: Run, state: RecordState, settings: Settings) -> tuple[RecordState, int]:
    """What becomes of acquired records: those delivered too often already are given up."""
    if state is RecordState.AVAILABLE and run.delivery_count >= settings.delivery_count_limit:
        return RecordState.ARCHIVED, run.delivery_count
    return state, run.delivery_count
