"""States of share partitions: what each request does in each of them, and random sequences.

The twin remembers a state as one word for each offset, and knows nothing of records.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from uuid import UUID

import pytest

from drumlin.coordination.shards.state_batches import pack
from drumlin.coordination.share.state.log import load
from drumlin.coordination.share.state.records import ShareRecord, Snapshot, Update, encode_record
from drumlin.coordination.share.state.shard import ShareShard
from drumlin.coordination.share.state.state import SharePartitionKey, ShareState, StateBatch
from drumlin.records.batch.batch import assign_offsets, parse_header
from drumlin.turns import to_end
from drumlin.wire.error_codes import ErrorCode, KafkaError

KEYS = [SharePartitionKey("g", UUID(int=1), partition) for partition in range(3)]
KEY = KEYS[0]
_LIMIT = 3
_STEPS = 1_500


class Log:
    """A partition of the topic: what is written can be read again, from its start."""

    def __init__(self) -> None:
        self.end_offset = 0
        self._batches: list[bytes] = []

    def write(self, shard: ShareShard, *records: ShareRecord) -> None:
        first_offset = self.end_offset
        for batch, contained in pack(records, encode_record, 1_000):
            assign_offsets(batch, 0, self.end_offset, 0)
            self._batches.append(bytes(batch))
            self.end_offset += len(contained)
        shard.apply(records, first_offset)

    def delete_before(self, offset: int) -> None:
        self._batches = [each for each in self._batches if parse_header(each).end_offset > offset]

    def load(self) -> ShareShard:
        shard = ShareShard(0)
        to_end(shard.take_over(load(self._batches)))
        return shard


# -- one request in each state ---------------------------------------------------------------

Request = Callable[[ShareShard, Log], object]


def _initialize(state_epoch: int, start_offset: int = 0) -> Request:
    return lambda shard, log: log.write(
        shard, shard.initialize(KEY, state_epoch, start_offset, 1_000)
    )


def _write(state_epoch: int, leader_epoch: int) -> Request:
    change = ShareState(state_epoch, leader_epoch, -1, 1, (StateBatch(0, 0, 2, 1),))
    return lambda shard, log: log.write(shard, shard.write(KEY, change, _LIMIT, 1_000))


def _read(leader_epoch: int | None) -> Request:
    def read(shard: ShareShard, log: Log) -> None:
        shard.check_read(KEY, leader_epoch)
        if leader_epoch is not None:
            log.write(shard, *shard.note_leader(KEY, leader_epoch, _LIMIT, 1_000))

    return read


def _delete(shard: ShareShard, log: Log) -> None:
    log.write(shard, *shard.delete(KEY))


#: States by how they came about.
NEW: tuple[Request, ...] = ()
BEGUN = (_initialize(3),)
LED = (_initialize(3), _read(5))
RENEWED = (_initialize(3), _read(5), _initialize(4))
GONE = (_initialize(3), _read(5), _delete)

_TABLE = [
    (NEW, _read(0), "invalid_request"),
    (NEW, _write(0, 0), "invalid_request"),
    (NEW, _delete, None),
    (NEW, _initialize(0), None),
    (BEGUN, _read(None), None),
    (BEGUN, _read(-1), "fenced_leader_epoch"),
    (BEGUN, _read(0), None),
    (BEGUN, _write(3, 0), None),
    (BEGUN, _write(2, 0), "fenced_state_epoch"),
    (BEGUN, _write(-1, -1), None),
    (BEGUN, _initialize(2), "fenced_state_epoch"),
    (BEGUN, _initialize(3), None),
    (LED, _read(4), "fenced_leader_epoch"),
    (LED, _read(None), None),
    (LED, _write(3, 4), "fenced_leader_epoch"),
    (LED, _write(3, 5), None),
    (LED, _write(3, 6), None),
    (RENEWED, _write(3, 5), "fenced_state_epoch"),
    (RENEWED, _read(4), "fenced_leader_epoch"),
    (RENEWED, _write(4, 5), None),
    (GONE, _read(5), "invalid_request"),
    (GONE, _initialize(0), None),
]


@pytest.mark.parametrize(("history", "request_", "refusal"), _TABLE)
@pytest.mark.parametrize("is_restarted", [False, True])
def test_requests(
    history: tuple[Request, ...], request_: Request, refusal: str | None, is_restarted: bool
) -> None:
    shard, log = ShareShard(0), Log()
    for step in history:
        step(shard, log)
    if is_restarted:
        shard = log.load()
    before = dict(shard.states)
    if refusal is None:
        request_(shard, log)
        return
    with pytest.raises(KafkaError) as raised:
        request_(shard, log)
    assert raised.value.code.name == refusal
    assert shard.states == before


def test_snapshots_come_after_some_updates() -> None:
    shard, log = ShareShard(0), Log()
    _initialize(1)(shard, log)
    kinds = []
    for _ in range(2 * _LIMIT + 2):
        record = shard.write(KEY, ShareState(1, 0, -1, 0), _LIMIT, 1_000)
        kinds.append(type(record[1]))
        log.write(shard, record)
    assert kinds == [*[Update] * _LIMIT, Snapshot, *[Update] * _LIMIT, Snapshot]
    assert shard.states[KEY].snapshot_epoch == 2


def test_cold_states_let_the_log_go() -> None:
    shard, log = ShareShard(0), Log()
    for key in KEYS:
        log.write(shard, shard.initialize(key, 1, 0, 1_000))
    for _ in range(_LIMIT + 1):
        log.write(shard, shard.write(KEYS[2], ShareState(1, 0, -1, 0), _LIMIT, 90_000))
    assert shard.redundant_before(log.end_offset) == 0
    again = list(chain.from_iterable(shard.cold_snapshots(60_000, 90_000)))
    assert [key for key, _ in again] == KEYS[:2]
    log.write(shard, *again)
    assert shard.redundant_before(log.end_offset) == log.end_offset - 3
    for key in KEYS:
        log.write(shard, *shard.delete(key))
    assert shard.redundant_before(log.end_offset) == log.end_offset
    assert list(shard.cold_snapshots(60_000, 90_000)) == []


# -- random sequences ------------------------------------------------------------------------


@dataclass
class Twin:
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = 0
    count: int = -1
    words: dict[int, tuple[int, int]] = field(default_factory=dict)


class Twins:
    """What the states must be, offset by offset."""

    def __init__(self) -> None:
        self.states: dict[SharePartitionKey, Twin] = {}

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> None:
        before = self.states.get(key)
        if before is not None and state_epoch < before.state_epoch:
            raise ValueError
        leader_epoch = 0 if before is None else before.leader_epoch
        count = -1 if start_offset == -1 else 0
        self.states[key] = Twin(state_epoch, leader_epoch, start_offset, count)

    def read(self, key: SharePartitionKey, leader_epoch: int) -> None:
        twin = self.states.get(key)
        if twin is None or leader_epoch < twin.leader_epoch:
            raise ValueError
        twin.leader_epoch = leader_epoch

    def write(self, key: SharePartitionKey, change: ShareState) -> None:
        twin = self.states.get(key)
        if twin is None:
            raise ValueError
        if -1 != change.leader_epoch < twin.leader_epoch:
            raise ValueError
        if -1 != change.state_epoch < twin.state_epoch:
            raise ValueError
        if change.start_offset != -1:
            twin.start_offset = change.start_offset
        twin.count = change.delivery_complete_count
        for first, last, state, count in change.batches:
            for offset in range(first, last + 1):
                twin.words[offset] = max(twin.words.get(offset, (-1, -1)), (count, state))
        twin.words = {at: word for at, word in twin.words.items() if at >= twin.start_offset}


def _check(shard: ShareShard, twins: Twins) -> None:
    assert shard.states.keys() == twins.states.keys()
    for key, twin in twins.states.items():
        state = shard.states[key].state
        words = {
            offset: (batch.delivery_count, batch.delivery_state)
            for batch in state.batches
            for offset in range(batch.first_offset, batch.last_offset + 1)
        }
        assert words == twin.words
        assert state.start_offset == twin.start_offset
        assert state.delivery_complete_count == twin.count
        assert state.state_epoch == twin.state_epoch


def _step(rng: random.Random, shard: ShareShard, log: Log, twins: Twins) -> None:
    key = rng.choice(KEYS)
    twin = twins.states.get(key, Twin())
    action = rng.random()
    if action < 0.08:
        epoch, start = max(twin.state_epoch + rng.randrange(-1, 2), 0), rng.choice((-1, 0, 5))
        if _both_take(
            lambda: shard.initialize(key, epoch, start, 1_000),
            lambda: twins.initialize(key, epoch, start),
        ):
            log.write(shard, shard.initialize(key, epoch, start, 1_000))
    elif action < 0.16:
        epoch = twin.leader_epoch + rng.randrange(-1, 2)
        if _both_take(lambda: shard.check_read(key, epoch), lambda: twins.read(key, epoch)):
            log.write(shard, *shard.note_leader(key, epoch, _LIMIT, 1_000))
    elif action < 0.19:
        log.write(shard, *shard.delete(key))
        twins.states.pop(key, None)
    elif action < 0.25:
        log.delete_before(shard.redundant_before(log.end_offset))
    else:
        change = _change(rng, twin)
        if _both_take(
            lambda: shard.write(key, change, _LIMIT, 1_000), lambda: twins.write(key, change)
        ):
            log.write(shard, shard.write(key, change, _LIMIT, 1_000))


def _both_take(one: Callable[[], object], twin: Callable[[], None]) -> bool:
    """Whether they take a request; they must agree about that."""
    taken = [True, True]
    try:
        one()
    except KafkaError:
        taken[0] = False
    try:
        twin()
    except ValueError:
        taken[1] = False
    assert taken[0] == taken[1]
    return taken[0]


def _change(rng: random.Random, twin: Twin) -> ShareState:
    batches = []
    for _ in range(rng.randrange(4)):
        first = max(twin.start_offset, 0) + rng.randrange(20)
        state = rng.choice((0, 2, 4))
        batches.append(StateBatch(first, first + rng.randrange(5), state, rng.randrange(1, 4)))
    return ShareState(
        twin.state_epoch + rng.choice((0, 0, 0, -1)),
        twin.leader_epoch + rng.choice((0, 0, 0, -1)),
        rng.choice((-1, -1, max(twin.start_offset, 0) + rng.randrange(4))),
        rng.randrange(5),
        tuple(batches),
    )


@pytest.mark.parametrize("seed", range(4))
def test_as_the_twins_do(seed: int) -> None:
    rng = random.Random(seed)
    shard, log, twins = ShareShard(0), Log(), Twins()
    for number in range(_STEPS // 4):
        _step(rng, shard, log, twins)
        _check(shard, twins)
        if number % 25 == 24:
            shard = log.load()
            _check(shard, twins)
            # A leader's epoch is known after a restart as far as the log still tells it.
            for key, stored in shard.states.items():
                assert stored.greatest_leader_epoch <= twins.states[key].leader_epoch
                twins.states[key].leader_epoch = stored.greatest_leader_epoch


def test_a_state_stays_small_enough_for_a_record() -> None:
    shard, log = ShareShard(0), Log()
    log.write(shard, shard.initialize(KEY, 1, 0, 1_000))

    def write(first: int, last: int, step: int, start_offset: int = -1) -> None:
        batches = tuple(StateBatch(each, each, 2, 1) for each in range(first, last, step))
        change = ShareState(1, 0, start_offset, 0, batches)
        log.write(shard, shard.write(KEY, change, 1, 1_000))

    write(1, 30_001, 2)
    write(30_001, 40_001, 2)
    with pytest.raises(KafkaError) as raised:
        write(50_000, 50_001, 1)
    assert raised.value.code is ErrorCode.unknown_server_error
    write(2, 3, 1)  # it joins two that there are
    write(60_000, 60_001, 1, start_offset=10_000)
    assert len(shard.states[KEY].state.batches) < 20_000
    assert log.load().states == shard.states
