"""Low-level calls on topics, states and transactions, for programs of many processes.

`drumlin.spark` uses these calls, and other engines can, too. They take a client or a transaction.
Unlike the client's own calls, they leave lookups before a call, and recovery from failures, to the
caller: offsets are not checked, and a claim counts only after it is confirmed.

This module keeps no state of its own.
"""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from drumlin.client import arguments
from drumlin.client.admin import admin
from drumlin.client.admin.admin import TopicDescription, TopicLookup
from drumlin.client.consumer.assignors import OwnAssignor
from drumlin.client.errors import ClientError, translated, translating
from drumlin.client.needs_arrow import needing_arrow
from drumlin.client.read import epoch_ends, log_at_time, log_samples, log_sizes, reader
from drumlin.client.read.epoch_ends import EpochEnd
from drumlin.client.read.log_samples import LogPlace, LogSample
from drumlin.client.read.range_stream import OffsetRange
from drumlin.client.read.reader import ReadOptions
from drumlin.client.restore.restore_target import RestoreTarget
from drumlin.client.state import exact_states
from drumlin.client.state.state_claims import Claim, Claims
from drumlin.client.topic_partition import AnyPartition, TopicPartition, as_partitions, by_partition
from drumlin.client.transactions import many, transaction_end
from drumlin.client.transactions.requests import OpenTransaction
from drumlin.client.write.deliveries import AppendedRange, DeliveryRules, EncodingRules

if TYPE_CHECKING:
    import pyarrow as pa

    from drumlin.client.arguments import ConfigValue
    from drumlin.client.client import Client
    from drumlin.client.transactions.errors import TransactionError
    from drumlin.client.transactions.transaction import Transaction
    from drumlin.client.write.row_sum import RowsRefused as RowsRefused
    from drumlin.client.write.row_sum import RowSum as RowSum
    from drumlin.client.write.stream_appender import StreamAppender as StreamAppender
    from drumlin.client.write.stream_appender import StreamReport as StreamReport
    from drumlin.peer.options import Isolation

#: Modules that load Arrow, and so are imported on first use.
_WITH_ARROW: Final = {
    "RowSum": "drumlin.client.write.row_sum",
    "RowsRefused": "drumlin.client.write.row_sum",
    "StreamAppender": "drumlin.client.write.stream_appender",
    "StreamReport": "drumlin.client.write.stream_appender",
}

__all__ = [
    "AppendedRange",
    "Claim",
    "Claims",
    "DeliveryRules",
    "EncodingRules",
    "EpochEnd",
    "LogPlace",
    "LogSample",
    "OffsetRange",
    "OpenTransaction",
    "OwnAssignor",
    "ReadOptions",
    "RestoreTarget",
    "RowSum",
    "RowsRefused",
    "StreamAppender",
    "StreamReport",
    "TopicDescription",
    "TopicLookup",
    "claim_states",
    "confirm_states",
    "detach",
    "end_of_epoch",
    "end_transaction",
    "end_transactions",
    "ends_at",
    "exact_from",
    "fate",
    "following",
    "is_topic_id_unknown",
    "known_leader_epochs",
    "look_up_topics",
    "partition_sizes",
    "read_range",
    "read_ranges",
    "replay_state",
    "restore_target",
    "sample_logs",
    "stream_appender",
]


def __getattr__(name: str) -> Any:
    if name in _WITH_ARROW:
        with needing_arrow():
            return getattr(importlib.import_module(_WITH_ARROW[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# -- topics and logs ---------------------------------------------------------------------------


def look_up_topics(client: Client, names: Collection[str] | None = None) -> TopicLookup:
    """Like `Client.describe_topics`, but missing topics are reported beside the others.

    Returns:
        `found`, a `TopicDescription` by name, and `refused`, an error code by name.

    Raises:
        RequestTimedOut: a topic's metadata did not arrive in time.
    """
    return client._run(admin.look_up_topics(client._connections, names))


def is_topic_id_unknown(client: Client, topic_id: str) -> bool:
    """Whether the cluster confirms that no topic has this id (any more), as after a deletion.

    Returns:
        True only if this is certain: False if brokers are too old for requests by id, or do not
        answer.

    Raises:
        ValueError: `topic_id` is not an id.
    """
    return client._run(admin.is_topic_id_unknown(client._connections, UUID(topic_id)))


def partition_sizes(
    client: Client, partitions: Collection[tuple[str, int]]
) -> dict[TopicPartition, int]:
    """The sizes in bytes of partitions' logs on their leaders.

    Returns:
        The sizes by (topic, partition), without partitions that the user must not see.

    Raises:
        UnknownTopic: a topic, or a partition of it, does not exist.
    """
    places = as_partitions(partitions)
    return client._run(log_sizes.partition_sizes(client._connections, places))


def sample_logs(client: Client, places: Collection[LogPlace]) -> Mapping[LogPlace, LogSample]:
    """Samples of the bytes that offsets take: a few batches are fetched at each place.

    Returns:
        The `start_offset`, `end_offset` and `size_bytes` of each sample, by place. Places where
        nothing can be read within a few seconds are left out, without an error.
    """
    return client._run(log_samples.log_samples(client._connections, places))


def ends_at(
    client: Client,
    end_offsets: Mapping[AnyPartition, int],
    at_ms: int,
    *,
    isolation: Isolation = "read_committed",
) -> dict[TopicPartition, int]:
    """The ends of logs at a given time: the offset of the first younger record.

    Unlike in `Client.list_offsets`, this is never the offset of a transaction marker.

    Args:
        client: the cluster.
        end_offsets: the current ends of the logs, just looked up: the result if no record is
            younger.
        at_ms: the time in milliseconds since 1970; records with this timestamp are not younger.
        isolation: with "read_committed", records of aborted transactions are not counted.

    Returns:
        The offset, by (topic, partition).

    Raises:
        UnknownTopic: a topic, or a partition of it, does not exist.
    """
    with translated():
        return log_at_time.ends_at(
            client._thread, client._connections, by_partition(end_offsets), at_ms, isolation
        )


def known_leader_epochs(client: Client, topic: str) -> dict[int, int]:
    """The leader epochs of a topic's partitions that this client knows; nothing is requested.

    Returns:
        The epoch, by partition. It may be out of date, but only by being too low.
    """
    known = client._connections.view.topics.get(topic)
    partitions = {} if known is None else known.partitions
    return {partition: each.leader_epoch for partition, each in partitions.items()}


def end_of_epoch(client: Client, partition: tuple[str, int], leader_epoch: int) -> EpochEnd:
    """Where the records of a leader epoch end in a log (KIP-320).

    This checks a log from which an offset was read while this epoch's leader led it: if this epoch
    is returned, with an end greater than that offset, the log still has all records before the
    offset, except for those removed by compaction.

    Returns:
        `leader_epoch` and `end_offset` of the latest epoch in the log that is not later; both are
        -1 if there is none.

    Raises:
        UnknownTopic: the topic, or its partition, does not exist.
    """
    (place,) = as_partitions([partition])
    return client._run(epoch_ends.epoch_end(client._connections, place, leader_epoch))


def read_range(
    client: Client, wanted: OffsetRange, options: ReadOptions | None = None
) -> Iterator[pa.RecordBatch]:
    """Like `Client.read_range`, but with places and options as values.

    Returns:
        Batches with the columns of `Client.read`.

    Raises:
        UnknownTopic, OffsetOutOfRange, LogEndsEarly, RecordsMissing: as in `Client.read_range`.
        ValueError: a column does not exist.
    """
    options = options or ReadOptions()
    reader.schema_of(options)
    return translating(reader.read_ranges(client._thread, client._connections, [wanted], options))


def read_ranges(
    client: Client, ranges: Sequence[OffsetRange], options: ReadOptions | None = None
) -> Iterator[tuple[OffsetRange, Iterator[pa.RecordBatch]]]:
    """Like `Client.read_range`, for many ranges, fetching ahead from one to the next.

    Args:
        client: the cluster.
        ranges: the ranges to read, in this order.
        options: the options of `Client.read`.

    Returns:
        Each range with its batches, which must be read before the next range is requested; later
        they raise a ClientError. An error concerns only its own range: the others can still be
        read.

    Raises:
        ValueError: a column that does not exist.
    """
    options = options or ReadOptions()
    reader.schema_of(options)
    each = reader.read_each_range(client._thread, client._connections, ranges, options)
    return ((wanted, translating(batches)) for wanted, batches in each)


# -- states ------------------------------------------------------------------------------------


def exact_from(client: Client, topic: str) -> dict[int, int]:
    """The first end offset whose state can be read exactly from the log, for each partition.

    Earlier states can no longer be read exactly, as the cleaner has removed some of their records.

    Returns:
        The offset, by partition. Partitions whose brokers do not report it are left out; on Apache
        Kafka these are all.

    Raises:
        UnknownTopic: the topic does not exist.
    """
    arguments.text("topic", topic)
    return client._run(exact_states.exact_from_of_topic(client._connections, topic))


def claim_states(
    client: Client,
    end_offsets: Mapping[AnyPartition, int],
    *,
    is_now: bool = False,
    allow_inexact: bool = False,
) -> Claims:
    """Check, before logs are read, that their states at given offsets can be read exactly.

    States that are read afterwards are exact if `confirm_states` succeeds; a claim that `needs_all`
    has to be read with `without_gaps`, from offset 0 on. All reads must be from the leaders.

    Args:
        client: the cluster.
        end_offsets: the offset after the last record of each state.
        is_now: whether these are the current ends of the logs, just looked up.
        allow_inexact: whether to accept incomplete states.

    Returns:
        The claims, by (topic, partition), for `confirm_states`. They can be pickled.

    Raises:
        StateNotExact: a state cannot be read exactly.
    """
    return client._run(
        exact_states.claim_states(
            client._connections,
            by_partition(end_offsets),
            is_now=is_now,
            allow_inexact=allow_inexact,
        )
    )


def confirm_states(client: Client, claims: Claims) -> None:
    """Check, after logs were read, that the claimed states were read exactly.

    Raises:
        StateNotExact: a cleaner has removed records meanwhile, or the leader has changed.
    """
    client._run(exact_states.confirm_states(client._connections, claims))


def replay_state(
    client: Client,
    topic: str,
    partition: int,
    columns: Sequence[str],
    *,
    memory_bytes: int,
    allow_inexact: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Like `Client.snapshot_batches`, for a store on disk: reads a state of any size in one pass.

    Args:
        client: the cluster.
        topic, partition, columns, allow_inexact: as in `Client.snapshot_batches`.
        memory_bytes: the approximate memory for rows that are not put into the store yet.

    Returns:
        Batches, in which a key may occur again: its row replaces the earlier one, and a null value
        deletes it.

    Raises:
        StateNotExact: perhaps only after the last batch; the content of the store may be wrong.
        UnknownTopic, OffsetOutOfRange, ValueError: as in `Client.snapshot_batches`.
    """
    with needing_arrow():
        from drumlin.client.state import snapshots

    schema = snapshots.schema_of(columns, headers=False)
    options = snapshots.SnapshotOptions(schema, "read_committed", None)
    states, ranges = client._states(topic, None, [partition], options, allow_inexact=allow_inexact)
    return translating(row for each in ranges for row in states.replay(each, memory_bytes))


def restore_target(
    client: Client, topic: str, to: str, configs: Mapping[str, ConfigValue] | None = None
) -> RestoreTarget:
    """Prepare the topic that `Client.restore` would write, creating it if necessary, for other
    writers.

    Returns:
        Whether an earlier restore has written the topic, and the maximum batch size there.

    Raises:
        NotRestored: `to` cannot be written from `topic`.
        UnknownTopic: `topic` does not exist.
    """
    arguments.text("to", to)
    target = RestoreTarget(client._thread, client._connections, topic, to)
    target.make(arguments.config_values("configs", configs or {}))
    return target


# -- writing -----------------------------------------------------------------------------------


def stream_appender(
    writes: Client | Transaction,
    topic: str | None = None,
    *,
    encoding: EncodingRules | None = None,
    delivery: DeliveryRules | None = None,
) -> StreamAppender:
    """An appender of rows that arrive in pieces, to one topic or to the topic in each row.

    In a transaction, finish the appender before the transaction is committed or detached. After an
    error, abort the transaction, as some of the rows may be written.

    Args:
        writes: a client, or the transaction of the rows.
        topic: the topic of all rows; None if each row has a `topic`.
        encoding: the encoding of rows as batches.
        delivery: acks, retries, timeout, and the maximum of unacknowledged bytes.

    Returns:
        An appender: `add` rows, then `finish`; after an error of either, `settle`.

    Raises:
        TransactionOver: the transaction has ended.
        ValueError: `acks` other than "all" in a transaction.
    """
    with needing_arrow():
        import drumlin.client.write.stream_appender  # noqa: F401 - fails before anything is asked
    return writes._stream_appender(topic, encoding, delivery)


# -- transactions ------------------------------------------------------------------------------


def detach(transaction: Transaction) -> OpenTransaction:
    """Flush the writers, and leave the transaction open, to be ended by another process.

    Returns:
        The argument for `end_transaction` in the other process, before the timeout. It can be
        pickled.

    Raises:
        TransactionFailed: some rows could not be written; the transaction can only be aborted.
        TransactionOver: the transaction has ended.
    """
    return transaction._detach()


def following(transaction: Transaction) -> Transaction:
    """The next transaction in the same epoch, without a new InitProducerId.

    Returns:
        The transaction. Its writes are refused if another producer has begun with the id meanwhile.

    Raises:
        TransactionOver: this transaction is not committed.
    """
    return transaction._following()


def fate(transaction: Transaction, error: Exception) -> TransactionError | None:
    """The error of a transaction whose stream appender raised `error`; it can only be aborted.

    Returns:
        The error that explains `error`; None if there is no other.

    Raises:
        ClientError: the client is closed, so the error is unknown.
    """
    return transaction._fate(error)


def end_transaction(client: Client, transaction: OpenTransaction, commit: bool) -> None:
    """Commit or abort a transaction that was detached, in this process or another.

    Does nothing if that was done before. Retries for `call_timeout_ms`.

    Raises:
        ProducerFenced: another producer has started with the transactional id; the outcome is
            unknown.
        TransactionTimedOut: the transaction was open for too long, and is aborted.
        TransactionAborted: it should be committed, but has been aborted.
        TransactionCommitted: it should be aborted, but has been committed.
        UnknownTransaction: the coordinator does not know it (any more).
        OutcomeUnknown: there is no answer; calling this again does no harm.
    """
    identity = OpenTransaction(*transaction)
    arguments.text("transactional_id", identity.transactional_id)
    arguments.whole_number("producer_id", identity.producer_id, -1, 2**63 - 1)
    arguments.whole_number("epoch", identity.epoch, -1, 2**15 - 1)
    client._run(transaction_end.end_transaction(client._connections, identity, commit=commit))


def end_transactions(
    client: Client,
    transactions: Collection[OpenTransaction],
    commit: bool,
    *,
    are_written: bool = False,
) -> dict[OpenTransaction, ClientError | None]:
    """Like `end_transaction`, for many transactions at a time.

    Args:
        client: the cluster.
        transactions: the results of `detach`.
        commit: whether to commit them; else abort them.
        are_written: whether writes were acknowledged in each transaction. If so, committing an
            empty one fails with `UnknownTransaction`, as the coordinator has lost it.

    Returns:
        The error that `end_transaction` would raise, or None, for each transaction; no error is
        raised.
    """
    return client._run(
        many.end_all(client._connections, transactions, commit=commit, are_written=are_written)
    )
