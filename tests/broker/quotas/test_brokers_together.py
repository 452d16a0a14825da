"""What clients use at several brokers of a machine counts at all of them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drumlin.broker.quotas import untold
from drumlin.broker.quotas.client_quotas import ClientQuotas
from drumlin.broker.quotas.limits import Other
from drumlin.broker.quotas.untold import Untold
from drumlin.clock import Clock
from drumlin.config.broker import BrokerConfig
from drumlin.wire.error_codes import KafkaError

_BOUND = 1000.0
_BROKERS = 3
_CREDIT_S = 10  # that a window has at first
_TIME_S = 150


class _Client(NamedTuple):
    broker: int
    size: int
    #: Between two of its requests, if it need not wait.
    pause_ms: int


class _Time(Clock):
    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0

    def monotonic(self) -> float:
        return self.now_ms / 1000


class _Machine:
    """The quotas of its brokers, which tell each other after some time. Time passes at once."""

    def __init__(self, lag_ms: int) -> None:
        self.time = _Time()
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = count()
        config = BrokerConfig.load({"log.dirs": "/nowhere"})
        self.quotas = [ClientQuotas(config, self.time) for _ in range(_BROKERS)]
        self._untold = [
            Untold(partial(self._begin, index, lag_ms), partial(self._begin, index, 2))
            for index in range(_BROKERS)
        ]
        for quotas, kept in zip(self.quotas, self._untold, strict=True):
            for quota in (quotas.produced, quotas.fetched, quotas.mutations):
                quota.limits.put({"user": "bob"}, _BOUND)
            quotas.connections.put(None, _BOUND)
            quotas.share(kept)

    def later(self, after_ms: int, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self.time.now_ms + after_ms, next(self._numbers), act))

    def _begin(self, teller: int, lag_ms: int) -> None:
        self.later(lag_ms, partial(self._tell, teller))

    def _tell(self, teller: int) -> None:
        for used in self._untold[teller].take(10):
            for index, quotas in enumerate(self.quotas):
                if index != teller:
                    quotas.hear(used)

    def pass_s(self, seconds: float) -> None:
        end_ms = self.time.now_ms + int(seconds * 1000)
        while self._due and self._due[0][0] <= end_ms:
            self.time.now_ms, _, act = heapq.heappop(self._due)
            act()
        self.time.now_ms = end_ms


def _used_s(clients: Sequence[_Client], lag_ms: int, *, is_fetched: bool) -> float:
    """What all have used, in seconds of their quota."""
    machine = _Machine(lag_ms)
    used = 0

    def ask(client: _Client) -> None:
        nonlocal used
        quotas, now_ms = machine.quotas[client.broker], machine.time.now_ms
        if is_fetched:
            wait_ms = quotas.fetched.admit("bob", "", client.size, now_ms)
            used += 0 if wait_ms else client.size
        else:
            wait_ms = quotas.produced.record("bob", "", client.size, now_ms)
            used += client.size
        machine.later(max(wait_ms, client.pause_ms), partial(ask, client))

    for client in clients:
        machine.later(client.pause_ms, partial(ask, client))
    machine.pass_s(_TIME_S)
    return used / _BOUND


_CLIENTS = st.lists(
    st.builds(_Client, st.integers(0, _BROKERS - 1), st.integers(20, 400), st.integers(5, 20)),
    min_size=1,
    max_size=8,
)


@settings(deadline=None, max_examples=15)
@given(_CLIENTS, st.integers(1, 200), st.booleans())
def test_they_have_one_quota(clients: list[_Client], lag_ms: int, is_fetched: bool) -> None:
    used_s = _used_s(clients, lag_ms, is_fetched=is_fetched)
    assert used_s <= 1.05 * _TIME_S + _BROKERS * _CREDIT_S
    assert used_s >= (0.8 if is_fetched else 0.95) * _TIME_S


@pytest.mark.parametrize("client_id", ["", "n" * 30_000])
def test_what_is_used_at_one_is_waited_for_at_all(client_id: str) -> None:
    machine = _Machine(50)
    for quotas in machine.quotas:
        quotas.produced.limits.put({"client-id": None, "user": None}, _BOUND)
    first, _, last = (quotas.produced for quotas in machine.quotas)
    first.record("alice", client_id, 2 * _CREDIT_S * _BOUND, 0)
    assert not last.overdue_ms("alice", client_id, 0)
    machine.pass_s(0.1)
    wait_ms = last.overdue_ms("alice", client_id, 0)
    assert 0.9 * _CREDIT_S * 1000 < wait_ms <= _CREDIT_S * 1000
    assert not last.overdue_ms("bob", client_id, 0)
    assert not last.overdue_ms("alice", client_id + "n", 0)


def test_changes_of_the_metadata_count_at_all() -> None:
    machine = _Machine(50)
    first, _, last = (
        quotas.mutations.for_request("bob", "", lambda: machine.time.now_ms, is_strict=True)
        for quotas in machine.quotas
    )
    assert first and last
    first.take(int(3 * _CREDIT_S * _BOUND))
    last.take(1)
    machine.pass_s(0.1)
    with pytest.raises(KafkaError):
        last.take(1)


def test_connections_from_an_address_count_at_all() -> None:
    machine = _Machine(50)
    first, _, last = (quotas.connections for quotas in machine.quotas)
    while not first.delay_ms("10.0.0.1", 0):
        pass
    assert not last.delay_ms("10.0.0.1", 0)
    machine.pass_s(0.1)
    assert last.delay_ms("10.0.0.1", 0)
    assert not last.delay_ms("10.0.0.2", 0)


def test_what_is_told_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untold, "_KEPT_MAX", 3)
    begun: list[None] = []
    much: list[None] = []
    kept = Untold(lambda: begun.append(None), lambda: much.append(None))
    for amount in (1.0, 2.0):
        for name in "abcde":
            kept.add("producer_byte_rate", (name, Other.NONE), amount, 25.0)
    assert (len(begun), len(much)) == (1, 3)
    taken = kept.take(2) + kept.take(2)
    assert [(used.owner[0], used.amount) for used in taken] == [("a", 3.0), ("b", 3.0), ("c", 3.0)]
    assert not kept
    kept.add("producer_byte_rate", ("e", Other.NONE), 1.0, 25.0)
    assert len(begun) == 2
