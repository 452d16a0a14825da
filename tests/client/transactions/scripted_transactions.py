"""What a scripted broker answers as the coordinator of one transactional id, and as a leader."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import ZERO
from rig.brokers.scripted_broker import Answer, ScriptedBroker
from rig.data.messages import Shape

ID = "an-id"


def script_transactions(broker: ScriptedBroker) -> None:
    """All that a transaction asks for is granted."""
    broker.script("find_coordinator", coordinator)
    broker.script("init_producer_id", begun(900_000))
    broker.script("describe_configs", config("900000"))
    broker.script("add_partitions_to_txn", added)
    broker.script("produce", taken)
    broker.script("end_txn", ended)


def coordinator(shape: Shape, request: Any) -> Any:
    found = shape(
        "Coordinator", key=ID, node_id=1, host="127.0.0.1", port=1, error_code=ErrorCode.none,
        error_message=None,
    )  # fmt: skip
    return shape("FindCoordinatorResponse", throttle_time=ZERO, coordinators=(found,))


def begun(limit_ms: int) -> Answer:
    """A broker that allows no longer time-out."""

    def answer(shape: Shape, request: Any) -> Any:
        is_too_long = request.transaction_timeout.total_seconds() * 1000 > limit_ms
        code = ErrorCode.invalid_transaction_timeout if is_too_long else ErrorCode.none
        return shape(
            "InitProducerIdResponse",
            throttle_time=ZERO,
            error_code=code,
            producer_id=7,
            producer_epoch=0,
        )

    return answer


def config(value: str | None, code: ErrorCode = ErrorCode.none) -> Answer:
    """What is said of the broker's settings."""

    def answer(shape: Shape, request: Any) -> Any:
        entry = shape(
            "DescribeConfigsResourceResult",
            name="transaction.max.timeout.ms",
            value=value,
            read_only=False,
            is_sensitive=False,
            synonyms=(),
            documentation=None,
        )
        result = shape(
            "DescribeConfigsResult",
            error_code=code,
            error_message=None,
            resource_type=4,
            resource_name="1",
            configs=(entry,) if code is ErrorCode.none else (),
        )
        return shape("DescribeConfigsResponse", throttle_time=ZERO, results=(result,))

    return answer


def added(shape: Shape, request: Any) -> Any:
    topics = tuple(
        shape(
            "AddPartitionsToTxnTopicResult",
            name=topic.name,
            results_by_partition=tuple(
                shape(
                    "AddPartitionsToTxnPartitionResult",
                    partition_index=each,
                    partition_error_code=ErrorCode.none,
                )
                for each in topic.partitions
            ),
        )
        for topic in request.v3_and_below_topics
    )
    return shape(
        "AddPartitionsToTxnResponse", throttle_time=ZERO, results_by_topic_v3_and_below=topics
    )


def ended(shape: Shape, request: Any) -> Any:
    return shape("EndTxnResponse", throttle_time=ZERO, error_code=ErrorCode.none)


def refused(shape: Shape, request: Any) -> Any:
    return produced(shape, request, ErrorCode.message_too_large)


def taken(shape: Shape, request: Any) -> Any:
    return produced(shape, request, ErrorCode.none)


def produced(shape: Shape, request: Any, code: ErrorCode) -> Any:
    """Every partition of a produce request."""
    responses = tuple(
        shape(
            "TopicProduceResponse",
            name=topic.name,
            partition_responses=tuple(
                shape(
                    "PartitionProduceResponse",
                    index=each.index,
                    error_code=code,
                    base_offset=-1,
                    log_append_time=None,
                    log_start_offset=-1,
                    record_errors=(),
                    error_message=None,
                )
                for each in topic.partition_data
            ),
        )
        for topic in request.topic_data
    )
    return shape("ProduceResponse", throttle_time=ZERO, responses=responses)


def ended_with(code: ErrorCode, abort: ErrorCode = ErrorCode.none) -> Answer:
    """A commit is refused, an abort is not, by default."""

    def answer(shape: Shape, request: Any) -> Any:
        found = code if request.committed else abort
        return shape("EndTxnResponse", throttle_time=ZERO, error_code=found)

    return answer


def described(state: str, epoch: int = 0) -> Answer:
    def answer(shape: Shape, request: Any) -> Any:
        found = shape(
            "TransactionState",
            error_code=ErrorCode.none,
            transactional_id=ID,
            transaction_state=state,
            transaction_timeout=timedelta(seconds=60),
            transaction_start_time=datetime.fromtimestamp(0, UTC),
            producer_id=7,
            producer_epoch=epoch,
            topics=(),
        )
        return shape(
            "DescribeTransactionsResponse", throttle_time=ZERO, transaction_states=(found,)
        )

    return answer
