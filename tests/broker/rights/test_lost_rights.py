"""Requests whose client loses a right while they wait: for a coordinator, or for a thread."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from broker.group_client import Client, with_client
from broker.sessions import SESSION
from drumlin.broker.context import RequestContext
from drumlin.broker.handlers import list_transactions, txn_offset_commit
from drumlin.broker.rights.acls import Kind, Operation, Pattern, Permission, Rule, Target
from drumlin.broker.rights.authorizer import Authorizer
from drumlin.broker.rights.session import ANONYMOUS
from drumlin.clock import SystemClock
from drumlin.storage.producers.verification import NOT_REQUIRED, Verification
from drumlin.wire.messages import RequestHeader
from drumlin.wire.protocol.list_transactions import ListTransactionsRequest
from rig.data.messages import request_shape

_NEEDED = (
    (Kind.TRANSACTIONAL_ID, "x", Operation.WRITE),
    (Kind.GROUP, "g", Operation.READ),
    (Kind.TOPIC, "t", Operation.READ),
)


@pytest.mark.parametrize(
    ("kind", "code"),
    [(None, 0), (Kind.TOPIC, 29), (Kind.GROUP, 30), (Kind.TRANSACTIONAL_ID, 53)],
)
def test_offsets_are_not_committed_then(
    monkeypatch: pytest.MonkeyPatch, kind: Kind | None, code: int
) -> None:
    authorizer = Authorizer((), allows_without_acls=False)

    def put(kind: Kind, name: str, *operations: Operation) -> None:
        rules = (Rule(ANONYMOUS, "*", each, Permission.ALLOW) for each in operations)
        authorizer.put(Target(kind, Pattern.LITERAL, name), frozenset(rules))

    async def verify(*_: Any) -> Verification:
        for lost in _NEEDED:
            if lost[0] is kind:
                put(*lost[:2])
        return NOT_REQUIRED

    async def scenario(client: Client) -> None:
        client.broker.authorizer = authorizer
        for needed in _NEEDED:
            put(*needed)
        shape = request_shape("txn_offset_commit", 3)
        partition = shape(
            "TxnOffsetCommitRequestPartition",
            partition_index=0,
            committed_offset=5,
            committed_metadata="",
        )
        topic = shape("TxnOffsetCommitRequestTopic", name="t", partitions=(partition,))
        asked = {
            "transactional_id": "x",
            "group_id": "g",
            "producer_id": 1,
            "producer_epoch": 0,
            "generation_id": -1,
            "topics": (topic,),
        }
        answer = await client.ask("txn_offset_commit", 3, **asked)
        assert answer.topics[0].partitions[0].error_code == code

    monkeypatch.setattr(txn_offset_commit, "_verify", verify)
    with_client(scenario)


@pytest.mark.parametrize("is_lost", [False, True])
def test_transactions_are_not_listed_then(*, is_lost: bool) -> None:
    authorizer = Authorizer((), allows_without_acls=False)
    target = Target(Kind.TRANSACTIONAL_ID, Pattern.PREFIXED, "a")
    rule = Rule(ANONYMOUS, "*", Operation.DESCRIBE, Permission.ALLOW)
    authorizer.put(target, frozenset({rule}))

    async def computing(*_: Any) -> bool:
        if is_lost:
            authorizer.put(target, frozenset())
        return True

    metadata = SimpleNamespace(producer_id=1, state=SimpleNamespace(label="Empty"))
    transaction = SimpleNamespace(transactional_id="a" * 30_000, metadata=metadata)

    async def scenario() -> None:
        broker: Any = SimpleNamespace(
            authorizer=authorizer,
            clock=SystemClock(),
            threads=SimpleNamespace(computing=computing),
            transactions=SimpleNamespace(
                transactions=lambda: [transaction], long_matches=asyncio.Semaphore(1)
            ),
        )
        connection: Any = None
        context = RequestContext(broker, connection, RequestHeader(66, 2, 1, "c", 0), SESSION)
        request = ListTransactionsRequest(transactional_id_pattern="a+" * 20)
        answer = await list_transactions.handle(context, request)
        assert len(answer.transaction_states) == (0 if is_lost else 1)

    asyncio.run(scenario())
