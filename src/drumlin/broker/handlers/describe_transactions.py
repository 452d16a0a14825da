"""DescribeTransactions (key 65), version 0: the state of transactional ids, each listed once.

Topics that the client may not see are left out.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from drumlin.broker.context import RequestContext
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.distinct import each_once
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO
from drumlin.wire.protocol.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

_EPOCH: Final = datetime.fromtimestamp(0, UTC)


async def handle(
    context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    states = await each_once(request.transactional_ids, lambda each: _describe(context, each))
    return DescribeTransactionsResponse(throttle_time=ZERO, transaction_states=tuple(states))


async def _describe(context: RequestContext, transactional_id: str) -> TransactionState:
    try:
        context.require(Operation.DESCRIBE, Kind.TRANSACTIONAL_ID, transactional_id)
        metadata = context.broker.transactions.describe(transactional_id)
    except KafkaError as error:
        return TransactionState(
            error_code=error.code,
            transactional_id=transactional_id,
            transaction_state="",
            transaction_timeout=ZERO,
            transaction_start_time=_EPOCH,
            producer_id=0,
            producer_epoch=0,
            topics=(),
        )
    topics: dict[str, list[int]] = {}
    for topic, index in list(metadata.partitions):
        topics.setdefault(topic, []).append(index)
        await give_way()
    told = []
    for topic, indexes in sorted(topics.items()):
        if context.may(Operation.DESCRIBE, Kind.TOPIC, topic):
            told.append(TopicData(topic=topic, partitions=tuple(sorted(indexes))))
        await give_way()
    return TransactionState(
        error_code=ErrorCode.none,
        transactional_id=transactional_id,
        transaction_state=metadata.state.label,
        transaction_timeout=timedelta(milliseconds=metadata.timeout_ms),
        transaction_start_time=_EPOCH + timedelta(milliseconds=metadata.start_timestamp_ms),
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        topics=tuple(told),
    )
