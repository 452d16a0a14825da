"""DescribeTransactions (key 65), version 0: the state of transactional ids, each once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from drumlin.broker.context import RequestContext
from drumlin.turns import Work
from drumlin.wire.errors import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO, Shape

_EPOCH: Final = datetime.fromtimestamp(0, UTC)


def handle(context: RequestContext, request: Any, shape: Shape) -> Work[Any]:
    states = []
    for transactional_id in dict.fromkeys(request.transactional_ids):
        states.append((yield from _describe(context, shape, transactional_id)))
        yield
    return shape(
        "DescribeTransactionsResponse", throttle_time=ZERO, transaction_states=tuple(states)
    )


def _describe(context: RequestContext, shape: Shape, transactional_id: str) -> Work[Any]:
    try:
        metadata = context.broker.transactions.describe(transactional_id)
    except KafkaError as error:
        return shape(
            "TransactionState",
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
        yield
    return shape(
        "TransactionState",
        error_code=ErrorCode.none,
        transactional_id=transactional_id,
        transaction_state=metadata.state.label,
        transaction_timeout=timedelta(milliseconds=metadata.timeout_ms),
        transaction_start_time=_EPOCH + timedelta(milliseconds=metadata.start_timestamp_ms),
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        topics=tuple(
            shape("TopicData", topic=topic, partitions=tuple(sorted(indexes)))
            for topic, indexes in sorted(topics.items())
        ),
    )
