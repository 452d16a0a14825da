"""DescribeTransactions (key 65), version 0."""

from __future__ import annotations

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import message
from drumlin.wire.schema.types import Int16, Int32, Int64, Milliseconds32, Moment


@message
class DescribeTransactionsRequest:
    transactional_ids: tuple[str, ...] = ()


@message
class TopicData:
    topic: str
    partitions: tuple[Int32, ...] = ()


@message
class TransactionState:
    error_code: ErrorCode
    transactional_id: str
    transaction_state: str
    transaction_timeout: Milliseconds32
    transaction_start_time: Moment
    producer_id: Int64
    producer_epoch: Int16
    topics: tuple[TopicData, ...]


@message
class DescribeTransactionsResponse:
    throttle_time: Milliseconds32
    transaction_states: tuple[TransactionState, ...]
