"""What is reported of a batch is what became of it, whatever is lost on the way and when.

A real sender, against the broker's real judgement of sequences. Batches have one record each, so
that the log can be compared with the reports.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from client.write.simulated_partition import (
    DROPPED,
    LOST,
    WELL,
    Fate,
    SimulatedConnection,
    SimulatedPartition,
)
from drumlin.client.errors import DeliveryFailed
from drumlin.client.write.partition_sender import Batch, PartitionSender
from drumlin.peer.retry import Deadline
from drumlin.records.batch.batch import SEQUENCE_MODULO
from drumlin.records.plain.record import Record, encode_batch
from drumlin.wire.error_codes import ErrorCode
from rig.time.virtual_time import run_in_virtual_time

SLOW = Fate(answer_delay_s=0.2)  # written at once, and answered later


class Put(NamedTuple):
    """A batch, so long after the one before it, with so much time and so many retries."""

    after_ms: int
    timeout_ms: int
    retries: int | None = None


class Outcome(NamedTuple):
    partition: SimulatedPartition
    batches: list[Batch]

    def reports(self) -> list[DeliveryFailed | int]:
        """The offset of each batch, or why it was not written."""
        return [_report(each) for each in self.batches]

    def copies(self) -> list[int]:
        """How often each batch is in the log."""
        return [self.partition.values.count(b"%d" % each) for each in range(len(self.batches))]


def _report(batch: Batch) -> DeliveryFailed | int:
    assert batch.done.done(), "its outcome was never reported"
    failure = batch.done.exception()
    if failure is None:
        return batch.done.result().base_offset
    assert isinstance(failure, DeliveryFailed)
    return failure


def sender_to(
    partition: SimulatedPartition,
    acks: int = -1,
    *,
    is_idempotent: bool = True,
    transactional_id: str | None = None,
    first_sequence: int = 0,
) -> PartitionSender:
    return PartitionSender(
        cast(Any, partition),
        "t",
        0,
        acks,
        partition.identify,
        is_idempotent=is_idempotent,
        transactional_id=transactional_id,
        first_sequence=first_sequence,
    )


def deliver(
    puts: Sequence[Put],
    fates: Iterable[Fate] = (),
    outages: list[tuple[float, float]] = [],  # noqa: B006
    acks: int = -1,
    is_idempotent: bool = True,
    first_epoch: int = 0,
    transactional_id: str | None = None,
) -> Outcome:
    """Put batches, and wait until something is reported of each."""

    async def run() -> Outcome:
        clock = asyncio.get_running_loop().time
        partition = SimulatedPartition(iter(fates), outages)
        partition.first_epoch = first_epoch
        sender = sender_to(
            partition, acks, is_idempotent=is_idempotent, transactional_id=transactional_id
        )
        batches = []
        for number, put in enumerate(puts):
            await asyncio.sleep(put.after_ms / 1000)
            buffer = encode_batch([Record(0, 1, None, b"%d" % number)])
            batches.append(Batch(buffer, Deadline(put.timeout_ms, clock), retries=put.retries))
            sender.put(batches[-1])
        await asyncio.gather(
            *(asyncio.wrap_future(each.done) for each in batches), return_exceptions=True
        )
        return Outcome(partition, batches)

    return run_in_virtual_time(run())


def check_exactly_once(outcome: Outcome) -> None:
    values, copies = outcome.partition.values, outcome.copies()
    for number, report in enumerate(outcome.reports()):
        if isinstance(report, int):
            assert copies[number] == 1, (
                f"{number} was delivered, and is there {copies[number]} times"
            )
            assert report < 0 or values[report] == b"%d" % number
        elif report.may_be_written:
            assert copies[number] <= 1, f"{number} is there {copies[number]} times"
        else:
            assert copies[number] == 0, f"{number} was refused, and is there"
    assert values == sorted(values, key=lambda value: int(value or b""))


# -- one case after the other ------------------------------------------------------------


def test_an_outage_that_only_the_oldest_batch_does_not_survive() -> None:
    """All were written, and no answer came: what is sent again keeps its sequence."""
    puts = [Put(0, 5_000), Put(100, 300), *[Put(0, 1_300)] * 3, Put(1_000, 5_000)]
    outcome = deliver(puts, [WELL, *[SLOW] * 4], [(0.15, 0.7)])
    check_exactly_once(outcome)
    assert outcome.copies() == [1] * 6
    failed = outcome.reports()[1]
    assert isinstance(failed, DeliveryFailed)
    assert failed.may_be_written
    assert {each.producer_epoch for each in outcome.partition.headers} == {0}


def test_an_outage_in_which_the_oldest_batch_is_lost() -> None:
    """Its successors are refused under their old sequences, and continue under the next epoch."""
    puts = [Put(0, 5_000), Put(100, 300), *[Put(0, 1_300)] * 3, Put(1_000, 5_000)]
    outcome = deliver(puts, [WELL, DROPPED], [(0.105, 0.7)])
    check_exactly_once(outcome)
    assert outcome.copies() == [1, 0, 1, 1, 1, 1]
    assert [each.producer_epoch for each in outcome.partition.headers] == [0, 1, 1, 1, 1]


def test_all_expire_and_new_ones_come() -> None:
    """It is unknown what the broker has: what comes again is not taken for any of it."""
    puts = [Put(0, 5_000), *[Put(100, 200)] * 3, Put(2_000, 5_000)]
    for fate in (LOST, DROPPED):
        outcome = deliver(puts, [WELL, fate, fate, fate], [(0.105, 1.5)])
        check_exactly_once(outcome)
        assert outcome.copies()[-1] == 1
        assert outcome.partition.headers[-1].producer_epoch == 1


def test_a_batch_in_the_middle_expires() -> None:
    puts = [Put(0, 5_000), Put(100, 9_000), Put(0, 200), Put(0, 9_000), Put(500, 9_000)]
    for fates in ([LOST], [DROPPED], [SLOW] * 3, [SLOW, DROPPED]):
        outcome = deliver(puts, [WELL, *fates], [(0.12, 0.5)])
        check_exactly_once(outcome)
        assert [outcome.copies()[each] for each in (0, 1, 3, 4)] == [1, 1, 1, 1]


def test_written_without_an_answer_and_then_refused() -> None:
    """The first of three is in the log, as its successors are, and cannot be sent again."""
    refused = Fate(ErrorCode.message_too_large, is_written=False)
    puts = [Put(0, 5_000), *[Put(0, 5_000)] * 3]
    outcome = deliver(puts, [WELL, WELL, WELL, LOST, refused])
    check_exactly_once(outcome)
    outcome = deliver(puts, [WELL, *[SLOW] * 3, refused], [(0.1, 0.2)])
    check_exactly_once(outcome)


def test_a_batch_that_is_refused_raises_the_epoch_at_once() -> None:
    refused = Fate(ErrorCode.message_too_large, is_written=False)
    outcome = deliver([Put(0, 5_000)] * 5, [WELL, refused])
    check_exactly_once(outcome)
    assert outcome.copies() == [1, 0, 1, 1, 1]
    failed = outcome.reports()[1]
    assert isinstance(failed, DeliveryFailed)
    assert not failed.may_be_written


def test_the_last_epoch_is_followed_by_another_producer() -> None:
    refused = Fate(ErrorCode.message_too_large, is_written=False)
    outcome = deliver([Put(10, 5_000)] * 4, [refused] * 3, first_epoch=2**15 - 2)
    check_exactly_once(outcome)
    assert outcome.copies() == [0, 0, 0, 1]
    header = outcome.partition.headers[0]
    assert (header.producer_id, header.producer_epoch) == (9, 2**15 - 1)


class Shrunk(SimulatedPartition):
    """The topic is there, and the partition is not, for a while."""

    def __init__(self, missing_s: float) -> None:
        super().__init__(iter(()), [])
        self._there_at = asyncio.get_running_loop().time() + missing_s

    async def leader(self, topic: str, partition: int) -> SimulatedConnection:
        if asyncio.get_running_loop().time() < self._there_at:
            self.view.leader_of(topic, partition)
        return await super().leader(topic, partition)


@pytest.mark.parametrize("transactional_id", [None, "x"])
@pytest.mark.parametrize(("missing_s", "is_delivered"), [(3, True), (60, False)])
def test_a_partition_that_is_not_there(
    transactional_id: str | None, missing_s: float, is_delivered: bool
) -> None:
    """One that was just added is waited for; one that is gone is not, for two minutes."""

    async def run() -> tuple[float, Batch]:
        clock = asyncio.get_running_loop().time
        sender = sender_to(Shrunk(missing_s), transactional_id=transactional_id)
        started = clock()
        batch = Batch(encode_batch([Record(0, 1, None, b"v")]), Deadline(120_000, clock))
        sender.put(batch)
        await asyncio.gather(asyncio.wrap_future(batch.done), return_exceptions=True)
        return clock() - started, batch

    seconds, batch = run_in_virtual_time(run())
    if is_delivered:
        assert batch.done.result().base_offset == 0
    else:
        assert seconds < 15
        with pytest.raises(DeliveryFailed, match="no such partition, the topic has only 0"):
            batch.done.result()


@pytest.mark.parametrize("transactional_id", [None, "x"])
@pytest.mark.parametrize("fate", [WELL, LOST, SLOW])
def test_sequences_begin_anew_behind_the_largest(transactional_id: str | None, fate: Fate) -> None:
    """As brokers count: 2147483647 is followed by 0, also within a batch."""

    async def run() -> SimulatedPartition:
        clock = asyncio.get_running_loop().time
        partition = SimulatedPartition(itertools.chain([WELL], itertools.repeat(fate, 4)), [])
        first = SEQUENCE_MODULO - 10
        sender = sender_to(partition, transactional_id=transactional_id, first_sequence=first)
        batches = []
        for number in range(8):
            records = [Record(each, 1, None, b"%d-%d" % (number, each)) for each in range(3)]
            batches.append(Batch(encode_batch(records), Deadline(60_000, clock)))
            sender.put(batches[-1])
        await asyncio.gather(*(asyncio.wrap_future(each.done) for each in batches))
        return partition

    partition = run_in_virtual_time(run())
    last = SEQUENCE_MODULO - 1
    expected = [last - 9, last - 6, last - 3, last, 2, 5, 8, 11]
    assert [each.base_sequence for each in partition.headers] == expected
    assert partition.values == [b"%d-%d" % (n, each) for n in range(8) for each in range(3)]


# -- and all together --------------------------------------------------------------------

_REFUSALS = [
    ErrorCode.not_enough_replicas,
    ErrorCode.not_leader_or_follower,
    ErrorCode.leader_not_available,
    ErrorCode.message_too_large,
    ErrorCode.topic_authorization_failed,
    ErrorCode.out_of_order_sequence_number,
    ErrorCode.unknown_producer_id,
    ErrorCode.invalid_producer_epoch,
]
_AFTER_THE_APPEND = [
    ErrorCode.not_enough_replicas_after_append,
    ErrorCode.request_timed_out,
    ErrorCode.not_leader_or_follower,
    ErrorCode.unknown_server_error,
    ErrorCode.kafka_storage_error,
    ErrorCode.unknown_topic_or_partition,
]
_FENCED = ErrorCode.invalid_producer_epoch
_DELAYS = st.sampled_from([0.002, 0.01, 0.05, 0.3])
# What speaks of sequences, and what has been written, are never said of the same batch.
_FATES = st.one_of(
    st.just(WELL),
    st.sampled_from([LOST, DROPPED]),
    st.builds(
        lambda code, delay: Fate(code, is_written=False, delay_s=delay),
        st.sampled_from(_REFUSALS[:5]),
        _DELAYS,
    ),
    st.builds(lambda code: Fate(code), st.sampled_from(_AFTER_THE_APPEND)),
    st.builds(lambda delay: Fate(delay_s=delay), _DELAYS),
    st.builds(lambda delay: Fate(answer_delay_s=delay), _DELAYS),
    st.builds(lambda delay: Fate(is_answered=False, delay_s=delay), _DELAYS),
)
_TIMEOUTS = st.sampled_from([50, 100, 200, 300, 500, 1_000, 5_000])
_PUTS = st.lists(
    st.builds(Put, st.sampled_from([0, 0, 0, 5, 30, 100, 400]), _TIMEOUTS, st.just(None)),
    min_size=1,
    max_size=25,
)
_OUTAGES = st.lists(
    st.builds(
        lambda start, length: (start / 100, (start + length) / 100),
        st.integers(0, 300),
        st.sampled_from([1, 5, 10, 30, 60, 120]),
    ),
    max_size=4,
)
_MANY = settings(max_examples=200, database=None)


@_MANY
@given(_PUTS, st.lists(_FATES, max_size=40), _OUTAGES)
def test_what_is_reported_is_true(
    puts: list[Put], fates: list[Fate], outages: list[tuple[float, float]]
) -> None:
    check_exactly_once(deliver(puts, fates, outages))


@_MANY
@given(_PUTS, st.lists(st.one_of(_FATES, st.just(Fate(_FENCED, is_written=False)))), _OUTAGES)
def test_a_transaction_has_one_epoch_and_ends_with_the_first_failure(
    puts: list[Put], fates: list[Fate], outages: list[tuple[float, float]]
) -> None:
    much_later = Put(200_000, 5_000)
    outcome = deliver([*puts, much_later], fates, outages, transactional_id="x")
    check_exactly_once(outcome)
    assert all(each.is_transactional for each in outcome.partition.headers)
    assert {each.producer_epoch for each in outcome.partition.headers} <= {0}
    if any(isinstance(report, DeliveryFailed) for report in outcome.reports()[:-1]):
        assert isinstance(outcome.reports()[-1], DeliveryFailed)
        assert b"%d" % len(puts) not in outcome.partition.seen
    else:
        assert outcome.partition.values[: len(puts)] == [b"%d" % each for each in range(len(puts))]


_RARELY_FORGOTTEN = st.lists(
    st.one_of(
        st.just(WELL),
        st.builds(lambda code: Fate(code, is_written=False), st.sampled_from(_REFUSALS)),
    ),
    max_size=30,
)


@_MANY
@given(_PUTS, _RARELY_FORGOTTEN)
def test_what_is_reported_is_true_where_brokers_forget(puts: list[Put], fates: list[Fate]) -> None:
    check_exactly_once(deliver(puts, fates))


@_MANY
@given(
    st.sampled_from([0, 1, -1]),
    st.lists(st.builds(Put, st.sampled_from([0, 5, 100]), _TIMEOUTS, st.just(0)), max_size=25),
    st.lists(_FATES, max_size=40),
    _OUTAGES,
)
def test_without_retries_nothing_is_sent_twice(
    acks: int, puts: list[Put], fates: list[Fate], outages: list[tuple[float, float]]
) -> None:
    outcome = deliver(puts, fates, outages, acks, is_idempotent=False)
    assert len(set(outcome.partition.seen)) == len(outcome.partition.seen)
    values = outcome.partition.values
    assert values == sorted(values, key=lambda value: int(value or b""))
    for report, copies in zip(outcome.reports(), outcome.copies(), strict=True):
        if acks != 0:
            assert copies == 1 if isinstance(report, int) else copies == 0 or report.may_be_written


@_MANY
@given(st.sampled_from([0, 1]), _PUTS, st.lists(_FATES, max_size=40), _OUTAGES)
def test_what_is_delivered_without_sequences_is_there(
    acks: int, puts: list[Put], fates: list[Fate], outages: list[tuple[float, float]]
) -> None:
    outcome = deliver(puts, fates, outages, acks, is_idempotent=False)
    for report, copies in zip(outcome.reports(), outcome.copies(), strict=True):
        if acks == 0:
            assert copies <= 1
        elif isinstance(report, int):
            assert copies >= 1
        else:
            assert copies == 0 or report.may_be_written


@_MANY
@given(
    st.lists(
        st.builds(Put, st.sampled_from([0, 5, 100]), _TIMEOUTS, st.sampled_from([None, 1, 2])),
        max_size=25,
    ),
    st.lists(_FATES, max_size=40),
    _OUTAGES,
)
@example([Put(0, 5_000, 1)] * 4, [WELL, LOST, LOST], [])
def test_few_retries(
    puts: list[Put], fates: list[Fate], outages: list[tuple[float, float]]
) -> None:
    outcome = deliver(puts, fates, outages)
    check_exactly_once(outcome)
    for number, put in enumerate(puts):
        sent = outcome.partition.seen.count(b"%d" % number)
        assert put.retries is None or sent <= 1 + put.retries
