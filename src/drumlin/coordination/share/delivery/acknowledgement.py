"""Checks of a member's acknowledgements against the records in flight.

A request that is refused in any part changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from operator import ne
from typing import Final, NamedTuple

from drumlin.coordination.share.delivery.in_flight import Change, RecordState, Run, Runs
from drumlin.coordination.share.delivery.settings import Settings
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError

#: The number of acknowledge types, or of runs of records, examined in one turn.
_AT_ONCE: Final = 100
#: The maximum number of batches in a stored state.
_RUNS_MAX: Final = 20_000


class AcknowledgeType(IntEnum):
    """The type of an acknowledgement. The numbers are the protocol's."""

    GAP = 0  # the log has no such record
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
    """Consecutive records, with one type for all or one for each."""

    first_offset: int
    last_offset: int
    types: Sequence[int]


async def check_request(
    batches: Sequence[Acknowledgement], *, knows_renew: bool, says_renew: bool
) -> None:
    """Check a partition's acknowledgements, without the records. Yields to the event loop in
    between.

    Raises:
        KafkaError: INVALID_REQUEST.
    """
    highest = AcknowledgeType.RENEW if knows_renew else AcknowledgeType.REJECT
    before = -1
    for batch in batches:
        count = len(batch.types)
        is_sound = (
            before <= batch.first_offset <= batch.last_offset
            and count > 0
            and count in (1, batch.last_offset - batch.first_offset + 1)
        )
        if not is_sound:
            raise KafkaError(ErrorCode.invalid_request)
        for first in range(0, count, _AT_ONCE):
            some = batch.types[first : first + _AT_ONCE]
            if min(some) < 0 or max(some) > highest:
                raise KafkaError(ErrorCode.invalid_request)
            if not says_renew and AcknowledgeType.RENEW in some:
                raise KafkaError(ErrorCode.invalid_request)
            await give_way()
        before = batch.last_offset


async def applying(
    runs: Runs,
    start_offset: int,
    member: str,
    batch: Acknowledgement,
    settings: Settings,
    change: Change,
    renewed: list[Run],
) -> None:
    """Add the new states of the records to `change`; records before the start offset are skipped.

    Yields to the event loop within a batch of very many records; looks up the runs again
    afterwards.

    change: receives the changes to write; renewed: receives the runs whose locks must be restarted.

    Raises:
        KafkaError: INVALID_RECORD_STATE, INVALID_REQUEST; `change` may already have some changes.
    """
    if batch.last_offset < start_offset:
        return
    first_offset = max(batch.first_offset, start_offset)
    _check_known(runs, first_offset, batch.last_offset)
    await _check_room(runs, batch)
    for found in _ranges_by_type(batch, first_offset):
        if found is None:
            await give_way()
            continue
        kind, offset, last_offset = found
        while some := runs.some_from(offset, last_offset, _AT_ONCE):
            for run in some:
                _check_held(run, member)
                part = runs.within(run, offset, last_offset)
                if kind is not AcknowledgeType.RENEW:
                    change.include(part, *outcome(part, _BECOMES[kind], settings))
                elif settings.may_renew:
                    renewed.append(part)
                else:
                    raise KafkaError(
                        ErrorCode.invalid_record_state, "locks of this group cannot be renewed"
                    )
                offset = part.last_offset + 1
            if len(some) == _AT_ONCE:
                await give_way()


def _check_known(runs: Runs, first_offset: int, last_offset: int) -> None:
    if runs.floor(first_offset) is None:
        raise KafkaError(ErrorCode.invalid_record_state, "the first record is not in flight")
    last = runs.floor(last_offset)
    if last is None or last.last_offset < last_offset:
        raise KafkaError(ErrorCode.invalid_request, "there are records that no member has acquired")


async def _check_room(runs: Runs, batch: Acknowledgement) -> None:
    """Check that the types do not split the records into too many runs."""
    parted = 0
    for first in range(0, len(batch.types) - 1, _AT_ONCE):
        some = batch.types[first : first + _AT_ONCE + 1]
        parted += sum(map(ne, some, some[1:]))
        if first + _AT_ONCE < len(batch.types):
            await give_way()
    if parted and len(runs) + parted > _RUNS_MAX:
        message = f"records in flight are parted into {_RUNS_MAX} ranges at most"
        raise KafkaError(ErrorCode.invalid_request, message)


def _check_held(run: Run, member: str) -> None:
    if run.state is not RecordState.ACQUIRED:
        raise KafkaError(ErrorCode.invalid_record_state, "the records are not acquired")
    if run.change is not None:
        raise KafkaError(ErrorCode.invalid_record_state, "they are acknowledged already")
    if run.member != member:
        raise KafkaError(ErrorCode.invalid_record_state, "another member has the records")


def _ranges_by_type(
    batch: Acknowledgement, first_offset: int
) -> Iterator[tuple[AcknowledgeType, int, int] | None]:
    """Ranges of consecutive records with one type, from an offset on; None: yield to the event
    loop.
    """
    types = batch.types
    if len(types) == 1:
        yield AcknowledgeType(types[0]), first_offset, batch.last_offset
        return
    start = first_offset - batch.first_offset
    kind = types[start]
    for first in range(start, len(types), _AT_ONCE):
        some = types[first : first + _AT_ONCE]
        if first > start:
            yield None
        if some.count(kind) == len(some):
            continue
        for index, each in enumerate(some, first):
            if each != kind:
                until = batch.first_offset + index
                yield AcknowledgeType(kind), batch.first_offset + start, until - 1
                start, kind = index, each
    yield AcknowledgeType(kind), batch.first_offset + start, batch.last_offset


def outcome(run: Run, state: RecordState, settings: Settings) -> tuple[RecordState, int]:
    """The new state of acquired records; ARCHIVED if they have reached the delivery count limit."""
    if state is RecordState.AVAILABLE and run.delivery_count >= settings.delivery_count_limit:
        return RecordState.ARCHIVED, run.delivery_count
    return state, run.delivery_count
