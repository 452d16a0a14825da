"""ListTransactions (key 66), versions 0-2: the transactional ids that this broker coordinates.

Version 1 added a filter by duration, version 2 one by transactional id (a regular expression in
RE2's syntax that the whole id must match). Unknown states in the request's filter are listed in the
answer; ids that the client may not see are not.
"""

from __future__ import annotations

import time
from collections.abc import Container
from typing import Any, Final

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.coordination.regexes import compile_regex, matches, takes_long
from drumlin.coordination.transactions.list_filter import ListFilter
from drumlin.coordination.transactions.states import BY_LABEL, TransactionState
from drumlin.coordination.transactions.transaction import Transaction
from drumlin.distinct import counted
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from drumlin.wire.protocol.list_transactions import TransactionState as ToldTransaction

#: Time limit for matching the ids of one request in a thread. A single match may take seconds.
_LONG_MATCHES_S: Final = 10.0


async def handle(
    context: RequestContext, request: ListTransactionsRequest
) -> ListTransactionsResponse:
    unknown, states = list[str](), set[TransactionState]()
    for each in request.state_filters:
        if each in BY_LABEL:
            states.add(BY_LABEL[each])
        else:
            unknown.append(each)
        await give_way()
    producer_ids = await counted(request.producer_id_filters)
    code, found, left = ErrorCode.none, list[ToldTransaction](), list[Transaction]()
    pattern = request.transactional_id_pattern
    compiled: Any = None
    try:
        wanted = _filter(request, producer_ids, states)
        compiled = compile_regex(pattern) if pattern else None
        now_ms = context.broker.clock.wall_ms()
        for transaction in context.broker.transactions.transactions():
            name = transaction.transactional_id
            if wanted.includes(transaction, now_ms) and _may_see(context, name):
                if compiled is not None and takes_long(compiled, name):
                    left.append(transaction)
                elif compiled is None or matches(compiled, name):
                    found.append(_told(transaction))
            await give_way()
    except KafkaError as error:
        code, found = error.code, []
        if code is ErrorCode.coordinator_load_in_progress:
            unknown = []  # as in Apache Kafka, which does not examine the filters then
    if left:
        return await _match_and_respond(context, unknown, found, compiled, left)
    return _respond(code, unknown, found)


async def _match_and_respond(
    context: RequestContext,
    unknown: list[str],
    found: list[ToldTransaction],
    compiled: Any,
    left: list[Transaction],
) -> ListTransactionsResponse:
    """The answer, after a thread has matched the remaining ids: one request at a time."""
    broker = context.broker
    async with broker.transactions.long_matches:
        ends_at = time.monotonic() + _LONG_MATCHES_S
        for transaction in left:
            if time.monotonic() > ends_at:
                return _respond(ErrorCode.invalid_regular_expression, unknown, [])
            name = transaction.transactional_id
            matched = await broker.threads.computing(matches, compiled, name)
            if matched and _may_see(context, name):
                found.append(_told(transaction))
    return _respond(ErrorCode.none, unknown, found)


def _may_see(context: RequestContext, transactional_id: str) -> bool:
    return context.sees(Operation.DESCRIBE, Kind.TRANSACTIONAL_ID, transactional_id)


def _told(transaction: Transaction) -> ToldTransaction:
    return ToldTransaction(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.metadata.producer_id,
        transaction_state=transaction.metadata.state.label,
    )


def _respond(
    code: ErrorCode, unknown: list[str], found: list[ToldTransaction]
) -> ListTransactionsResponse:
    return ListTransactionsResponse(
        throttle_time=ZERO,
        error_code=code,
        unknown_state_filters=tuple(unknown),
        transaction_states=tuple(found),
    )


def _filter(
    request: ListTransactionsRequest, producer_ids: Container[int], states: set[TransactionState]
) -> ListFilter:
    duration_ms = request.duration_filter
    return ListFilter(
        producer_ids if request.producer_id_filters else None,
        frozenset(states) if request.state_filters else None,
        duration_ms if duration_ms >= 0 else None,
    )
