"""Requests about very many things, and answers of very many entries, are made in steps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NoReturn
from uuid import UUID

import pytest

from broker.sessions import SESSION
from drumlin.broker.context import RequestContext
from drumlin.broker.handlers import (
    consumer_group_describe,
    describe_configs,
    describe_log_dirs,
    describe_transactions,
    list_transactions,
)
from drumlin.clock import SystemClock
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import RequestHeader
from drumlin.wire.protocol.list_transactions import ListTransactionsRequest
from rig.time.stepped import Stepped

_ENTRIES = 5_000
_DESCRIBE = "describe_transactions"


def _context(api_key: int, version: int) -> RequestContext:
    broker: Any = SimpleNamespace(log_moves=(), authorizer=None, quotas=None)
    connection: Any = None
    return RequestContext(broker, connection, RequestHeader(api_key, version, 1, "c", 0), SESSION)


def _none(_: object) -> NoReturn:
    raise KafkaError(ErrorCode.transactional_id_not_found)


def test_what_transactions_are_asked_for_is_looked_at_in_steps() -> None:
    asked = SimpleNamespace(transactional_ids=[f"x{each % 3}" for each in range(_ENTRIES)])
    context = _context(65, 0)
    context.broker.transactions = SimpleNamespace(describe=_none)  # type: ignore[assignment]
    work = describe_transactions.handle(context, asked)
    assert Stepped(work).count() >= _ENTRIES / 500
    filters = tuple(range(_ENTRIES))
    request = ListTransactionsRequest(producer_id_filters=filters)
    context.broker.clock = SystemClock()
    context.broker.transactions = SimpleNamespace(transactions=list)  # type: ignore[assignment]
    work = list_transactions.handle(context, request)
    assert Stepped(work).count() >= _ENTRIES / 500


def test_partitions_of_transactions_and_log_dirs_are_told_in_steps() -> None:
    state = SimpleNamespace(label="Ongoing")
    found = SimpleNamespace(
        partitions=[(f"t{each}", 0) for each in range(_ENTRIES)],
        state=state,
        timeout_ms=1,
        start_timestamp_ms=1,
        producer_id=1,
        producer_epoch=1,
    )
    context = _context(65, 0)
    context.broker.transactions = SimpleNamespace(describe=lambda _: found)  # type: ignore[assignment]
    work = describe_transactions._describe(context, "x")
    assert Stepped(work).count() >= 2 * _ENTRIES
    directory: Any = SimpleNamespace(is_online=True, path="/x")
    topics: Any = {f"t{each}": () for each in range(_ENTRIES)}
    work = describe_log_dirs._result(directory, None, topics, is_cordoned=False)
    assert Stepped(work).count() >= _ENTRIES


def test_what_log_dirs_are_asked_for_is_looked_at_in_steps() -> None:
    topic = SimpleNamespace(topic="t", partitions=(0,))
    context = _context(35, 4)
    context.broker.logs = ()  # type: ignore[assignment]
    request = SimpleNamespace(topics=(topic,) * _ENTRIES)
    work = describe_log_dirs._respond(context, request, {})
    assert Stepped(work).count() >= _ENTRIES


def _consumer_group(members: int, topics: int) -> Any:
    said = SimpleNamespace(
        group_instance_id=None, rack_id=None, client_id="", client_host="", topics=(), regex=None
    )
    has = {UUID(int=1 + each): {0: 1, 2: 1} for each in range(topics)}
    progress = SimpleNamespace(assigned=has, revoking={UUID(int=1): {1: 1}})
    member = {"subscription": said, "progress": progress, "epoch": 3, "is_classic": False}
    by_id = SimpleNamespace(by_id=lambda topic_id: SimpleNamespace(name=f"t{topic_id.int}"))
    names = [f"m{each}" for each in range(members)]
    return SimpleNamespace(
        members={each: SimpleNamespace(member_id=each, **member) for each in names},
        revision=7,
        state_name="Stable",
        epoch=3,
        target_epoch=SimpleNamespace(epoch=3),
        assignors={"uniform": members},
        targets={},
        context=SimpleNamespace(topics=by_id),
    )


@pytest.mark.parametrize(("members", "topics"), [(1000, 1), (2, 500)])
def test_the_members_of_a_consumer_group_are_described_in_steps(members: int, topics: int) -> None:
    group = _consumer_group(members, topics)
    context = _context(69, 1)
    context.broker.config = SimpleNamespace(group_coordinator_rebalance_protocols=["consumer"])  # type: ignore[assignment]
    context.broker.groups = SimpleNamespace(consumer_group=lambda _: group)  # type: ignore[assignment]
    request: Any = SimpleNamespace(include_authorized_operations=False)
    work = Stepped(consumer_group_describe._describe(context, request, "g"))
    for _ in range(10):
        next(work)
    del group.members["m0"]
    group.revision += 1  # so it is described again
    steps = 0
    while True:
        try:
            next(work)
        except StopIteration as done:
            told = done.value.members
            break
        steps += 1
    assert steps >= (2 * members - 1) * topics - 10
    assert [each.member_id for each in told] == list(group.members)
    assert told[0].assignment.topic_partitions[0].partitions == (0, 1, 2)


def test_the_keys_that_are_asked_for_are_looked_at_in_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(describe_configs, "_entries", lambda *_: [])
    keys = [f"key-{each}" for each in range(_ENTRIES)]
    resource = SimpleNamespace(resource_type=2, resource_name="t", configuration_keys=keys)
    request = SimpleNamespace(resources=(resource,))
    work = describe_configs.handle(_context(32, 4), request)
    assert Stepped(work).count() >= _ENTRIES / 500
