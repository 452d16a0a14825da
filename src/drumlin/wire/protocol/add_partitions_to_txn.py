"""AddPartitionsToTxn (key 24), versions 0 to 5."""

from __future__ import annotations

from typing import Annotated

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.schema.declaration import NEVER, NullFrom, Versions, message
from drumlin.wire.schema.types import Int16, Int32, Int64, Milliseconds32


@message
class AddPartitionsToTxnTopic:
    name: str
    partitions: tuple[Int32, ...] = ()


@message
class AddPartitionsToTxnTransaction:
    transactional_id: str
    producer_id: Int64
    producer_epoch: Int16
    verify_only: bool = False
    topics: tuple[AddPartitionsToTxnTopic, ...]


@message
class AddPartitionsToTxnRequest:
    v3_and_below_transactional_id: Annotated[str, Versions(0, 3)] = ""
    v3_and_below_producer_id: Annotated[Int64, Versions(0, 3)] = 0
    v3_and_below_producer_epoch: Annotated[Int16, Versions(0, 3)] = 0
    v3_and_below_topics: Annotated[tuple[AddPartitionsToTxnTopic, ...], Versions(0, 3)] = ()
    transactions: Annotated[
        tuple[AddPartitionsToTxnTransaction, ...] | None, Versions(4), NullFrom(NEVER)
    ] = None


@message
class AddPartitionsToTxnPartitionResult:
    partition_index: Int32
    partition_error_code: ErrorCode


@message
class AddPartitionsToTxnTopicResult:
    name: str
    results_by_partition: tuple[AddPartitionsToTxnPartitionResult, ...]


@message
class AddPartitionsToTxnResult:
    transactional_id: str
    topic_results: tuple[AddPartitionsToTxnTopicResult, ...]


@message
class AddPartitionsToTxnResponse:
    throttle_time: Milliseconds32
    results_by_topic_v3_and_below: Annotated[
        tuple[AddPartitionsToTxnTopicResult, ...], Versions(0, 3)
    ] = ()
    error_code: Annotated[ErrorCode, Versions(4)] = ErrorCode.none
    results_by_transaction: Annotated[tuple[AddPartitionsToTxnResult, ...], Versions(4)] = ()
