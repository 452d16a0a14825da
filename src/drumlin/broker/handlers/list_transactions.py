"""ListTransactions (key 66), versions 0-2: the transactional ids that are coordinated here.

Version 1 brought a filter by duration, version 2 one by the id's name (a regular expression in
RE2's syntax that the whole id must match). States that do not exist are told apart.
"""

from __future__ import annotations

from collections.abc import Container
from functools import partial
from typing import Any

from drumlin.broker.context import RequestContext
from drumlin.coordination.regexes import compile_regex, matches
from drumlin.coordination.transactions.listing import TransactionFilter
from drumlin.coordination.transactions.states import BY_LABEL, TransactionState
from drumlin.distinct import distinct
from drumlin.turns import Work
from drumlin.wire.errors import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO, Shape


def handle(context: RequestContext, request: Any, shape: Shape) -> Work[Any]:
    unknown, states = list[str](), set[TransactionState]()
    for each in request.state_filters:
        if each in BY_LABEL:
            states.add(BY_LABEL[each])
        else:
            unknown.append(each)
        yield
    producer_ids = yield from distinct(request.producer_id_filters)
    code, found = ErrorCode.none, []
    try:
        wanted = _filter(request, producer_ids, states)
        now_ms = context.broker.clock.wall_ms()
        for transaction in context.broker.transactions.transactions():
            if wanted.includes(transaction, now_ms):
                found.append(
                    shape(
                        "TransactionState",
                        transactional_id=transaction.transactional_id,
                        producer_id=transaction.metadata.producer_id,
                        transaction_state=transaction.metadata.state.label,
                    )
                )
            yield
    except KafkaError as error:
        code, found = error.code, []
        if code is ErrorCode.coordinator_load_in_progress:
            unknown = []  # Apache Kafka does not look at the request before
    yield from producer_ids.let_go()
    return shape(
        "ListTransactionsResponse",
        throttle_time=ZERO,
        error_code=code,
        unknown_state_filters=tuple(unknown),
        transaction_states=tuple(found),
    )


def _filter(
    request: Any, producer_ids: Container[int], states: set[TransactionState]
) -> TransactionFilter:
    """
    Raises:
        KafkaError: INVALID_REGULAR_EXPRESSION.
    """
    duration_ms = getattr(request, "duration_filter", -1)
    pattern = getattr(request, "transactional_id_pattern", None)
    return TransactionFilter(
        producer_ids if request.producer_id_filters else None,
        frozenset(states) if request.state_filters else None,
        duration_ms if duration_ms >= 0 else None,
        partial(matches, compile_regex(pattern)) if pattern else None,
    )
