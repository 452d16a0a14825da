"""The synchronous client: what a Python program or a Spark task talks to.

A `Client` owns one thread with an event loop, in which all its connections live; every method
hands a coroutine to that thread and waits. Decoding and encoding run in the caller's thread,
so that network and kernels overlap. A client may be used from several threads. It must not
cross a fork, and it refuses to be pickled: a worker process opens its own with `connect`.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import NoReturn, Self, Unpack
from uuid import UUID

import pyarrow as pa

from drumlin.client import admin, arguments, group_admin, log_samples, log_sizes, offsets, reader
from drumlin.client.admin import TopicDescription
from drumlin.client.appender import AppendOptions, AppendReport, append
from drumlin.client.committed_offsets import OffsetAndMetadata
from drumlin.client.consumer import Consumer
from drumlin.client.consumer.options import ConsumerKeywords, ConsumerOptions, Subscription
from drumlin.client.deliveries import DeliveryRules
from drumlin.client.errors import ClientError, TopicExists, translated
from drumlin.client.group_admin import GroupDescription
from drumlin.client.log_samples import LogPlace, LogSample
from drumlin.client.loop_thread import LoopThread
from drumlin.client.offsets import OffsetAndTimestamp, OffsetSpec, TopicPartition
from drumlin.client.producer import Producer
from drumlin.client.range_stream import OffsetRange
from drumlin.client.reader import Place, ReadOptions
from drumlin.client.stream_appender import EncodingRules, StreamAppender
from drumlin.client.transactions.calls import TransactionCalls
from drumlin.client.writer import Writer, WriterKeywords, WriterOptions
from drumlin.peer.broker_connections import BrokerConnections, parse_bootstrap
from drumlin.peer.options import Isolation, PeerOptions
from drumlin.peer.security.security import Security
from drumlin.records import kernels


def connect(
    bootstrap: str,
    *,
    client_id: str = "drumlin",
    request_timeout_ms: int = 30_000,
    call_timeout_ms: int | None = None,
    connect_timeout_ms: int = 10_000,
    retry_backoff_ms: int = 50,
    retry_backoff_max_ms: int = 1_000,
    check: bool = True,
    client_rack: str = "",
    security: Security | Mapping[str, str] | None = None,
) -> Client:
    """A client of the cluster that the brokers in `bootstrap` belong to.

    Args:
        bootstrap: "host:port[,host:port...]"; one reachable broker is enough.
        client_id: how brokers name this client in logs and quotas.
        request_timeout_ms: what a broker has for one answer.
        call_timeout_ms: how long one call may take, retries included; by default as long as one
            answer. If it is longer, a broker that hangs does not cost a call all of its time.
        connect_timeout_ms: how long one broker may take to accept a connection.
        check: ask the cluster once before this returns, so that a wrong address shows here and at
            once. Without it the first call connects, and waits for a broker as every call does.
        client_rack: the rack (zone) of this machine, as brokers call it. Where the leader of a
            partition knows a replica there, ranges are read from that one (KIP-392).
        security: TLS and login, as `drumlin.security` has them or as Kafka's properties
            ("security.protocol", "sasl.mechanism", ...). Without it nothing is encrypted.

    Raises:
        BrokerUnreachable: none of the brokers answers.
        AuthenticationFailed: a broker is not to be trusted, or refuses the login.
        ValueError: an option cannot be.
    """
    arguments.text("bootstrap", bootstrap)
    options = PeerOptions(
        client_id=client_id,
        request_timeout_ms=request_timeout_ms,
        call_timeout_ms=call_timeout_ms,
        connect_timeout_ms=connect_timeout_ms,
        retry_backoff_ms=retry_backoff_ms,
        retry_backoff_max_ms=retry_backoff_max_ms,
        client_rack=client_rack,
        security=Security.of(security),
    )
    client = Client(bootstrap, options)
    if not check:
        return client
    try:
        client.refresh()
    except BaseException:
        client.close()
        raise
    return client


def _translated(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with translated():
        yield from batches


class Client(TransactionCalls):
    """One cluster, seen from one process. Use it as a context manager, or `close` it."""

    def __init__(self, bootstrap: str, options: PeerOptions) -> None:
        self.bootstrap = bootstrap
        self.options = options
        addresses = parse_bootstrap(bootstrap)
        connections = BrokerConnections(addresses, options)
        thread = LoopThread(f"drumlin-client {bootstrap}")
        super().__init__(thread, connections, Producer(connections))

    # -- life ----------------------------------------------------------------------------

    def close(self) -> None:
        """Close all connections and stop the thread. Closing twice does nothing.

        A transaction that is open is aborted, if that takes no more than a few seconds.
        """
        if not self._thread.is_running:
            return
        self._thread.check_may_wait()
        try:
            with contextlib.suppress(ClientError):  # another thread closes it, too
                self._abort_unended()
                self._thread.call_soon(self._producer.close)
                self._run(self._connections.close())
        finally:
            self._thread.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Client holds sockets and a thread: connect anew in the other process")

    def refresh(self) -> None:
        """Ask the cluster anew which brokers it has."""
        self._run(self._connections.refresh(()))

    # -- topics --------------------------------------------------------------------------

    def list_topics(
        self, pattern: str | re.Pattern[str] | None = None, *, internal: bool = False
    ) -> list[str]:
        """Names of topics, sorted; `pattern` must match the whole name, as in Spark and Kafka."""
        names = self._run(admin.list_topics(self._connections, internal))
        if pattern is None:
            return names
        matches = re.compile(pattern).fullmatch
        return [name for name in names if matches(name)]

    def topics(self, names: Sequence[str] | None = None) -> dict[str, TopicDescription]:
        """Topics with their partitions, leaders and replicas; all of them by default.

        Raises:
            UnknownTopic: one of `names` does not exist.
        """
        return self._run(admin.describe_topics(self._connections, names))

    def look_up_topics(self, names: Collection[str] | None = None) -> admin.TopicLookup:
        """As `topics`, but a topic that is not there is reported beside those that are."""
        return self._run(admin.look_up_topics(self._connections, names))

    def is_topic_id_unknown(self, topic_id: str) -> bool:
        """Whether the cluster says that no topic has this id (any more): the topic was deleted."""
        return self._run(admin.is_topic_id_unknown(self._connections, UUID(topic_id)))

    def partitions(self, topic: str) -> list[int]:
        """The partition numbers of a topic, sorted.

        Raises:
            UnknownTopic: there is no such topic.
        """
        return self._run(self._connections.partitions(topic))

    def create_topic(
        self,
        topic: str,
        partitions: int = -1,
        *,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
        if_not_exists: bool = False,
    ) -> bool:
        """Create a topic and wait until all its partitions have leaders; -1: broker's default.

        With `if_not_exists` one that is there is left as it is, whatever it is like. Tells
        whether the topic was created.

        Raises:
            TopicExists: it is there already.
        """
        arguments.texts("configs", configs or {})
        wanted = admin.NewTopic(topic, partitions, replication_factor, dict(configs or {}))
        try:
            self._run(admin.create_topic(self._connections, wanted))
        except TopicExists:
            if if_not_exists:
                return False
            raise
        return True

    def delete_topic(self, topic: str) -> None:
        """Delete a topic with all its records.

        Raises:
            UnknownTopic: there is no such topic.
        """
        self._run(admin.delete_topic(self._connections, topic))

    def add_partitions(self, topic: str, count: int) -> None:
        """Raise the number of a topic's partitions to `count`, and wait until brokers know them."""
        self._run(admin.add_partitions(self._connections, topic, count))

    def topic_configs(self, topic: str) -> dict[str, admin.ConfigEntry]:
        """All configuration keys of a topic: value, and whether it differs from the default."""
        return self._run(admin.topic_configs(self._connections, topic))

    def set_topic_configs(self, topic: str, changes: Mapping[str, str | None]) -> None:
        """Set configuration keys of a topic; None returns a key to its default."""
        arguments.texts("changes", {key: each for key, each in changes.items() if each is not None})
        self._run(admin.set_topic_configs(self._connections, topic, changes))

    # -- offsets -------------------------------------------------------------------------

    def list_offsets(
        self,
        wanted: Mapping[TopicPartition, OffsetSpec],
        *,
        isolation: Isolation = "read_uncommitted",
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Look up a place in each of many partitions at once, one request a broker.

        A spec is "earliest", "latest", "max_timestamp", or a time (milliseconds or an aware
        datetime): the first record at or after it, with offset -1 where there is none.
        `isolation="read_committed"` moves "latest" to the last stable offset.

        Raises:
            UnknownTopic: a topic, or a partition of it, does not exist.
        """
        arguments.isolation_level(isolation)
        return self._run(offsets.list_offsets(self._connections, wanted, isolation))

    def offsets(
        self,
        topic: str,
        at: OffsetSpec = "latest",
        *,
        isolation: Isolation = "read_uncommitted",
    ) -> dict[int, int]:
        """The offset of one place in every partition of a topic.

        A time gives the offset to start reading from: where no record is that young, the end.
        """
        arguments.isolation_level(isolation)
        return self._run(offsets.offsets_of_topic(self._connections, topic, at, isolation))

    def partition_sizes(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Bytes of these partitions' logs on their leaders, as far as the brokers tell."""
        return self._run(log_sizes.partition_sizes(self._connections, partitions))

    def sample_logs(self, places: Collection[LogPlace]) -> Mapping[LogPlace, LogSample]:
        """How many bytes the offsets at these places take: a few batches of each are fetched."""
        return self._run(log_samples.log_samples(self._connections, places))

    # -- groups --------------------------------------------------------------------------

    def describe_group(self, group: str) -> GroupDescription:
        """State and members of a consumer group; one that does not exist is "Dead"."""
        return self._run(group_admin.describe_group(self._connections, group))

    def committed_offsets(
        self, group: str, *, require_stable: bool = False
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Every offset that a group has committed, with its metadata.

        `require_stable` waits while a transaction may be about to change one; without it they
        are those before that transaction.
        """
        return self._run(
            group_admin.fetch_committed(self._connections, group, require_stable=require_stable)
        )

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> Future[None]:
        """Commit offsets to a group from outside, as no member of it. Does not wait.

        The future raises what went wrong: `CommitFailed` where the broker refuses them, as it
        does while the group has members.
        """
        return self._thread.submit(group_admin.commit_all(self._connections, group, offsets))

    # -- reading -------------------------------------------------------------------------

    def read(
        self,
        topic: str,
        partitions: Sequence[int] | None = None,
        *,
        start: Place | Mapping[int, Place] = "earliest",
        end: Place | Mapping[int, Place] = "latest",
        **options: Unpack[ReadOptions],
    ) -> pa.Table:
        """The records from `start` up to, not including, `end`, as one table.

        Offsets are whole numbers; times are aware datetimes. Records come in offset order,
        partition after partition. An `end` beyond the last record reads what is there.

        `options` are those of `read_range`.

        Raises:
            UnknownTopic: there is no such topic or partition.
            OffsetOutOfRange: `start` is a number that the log does not hold (any more).
        """
        reader.check_options("read", options)
        batches = list(self._read(topic, partitions, start, end, options))
        return pa.Table.from_batches(batches, reader.schema_of(options))

    def read_batches(
        self,
        topic: str,
        partitions: Sequence[int] | None = None,
        *,
        start: Place | Mapping[int, Place] = "earliest",
        end: Place | Mapping[int, Place] = "latest",
        **options: Unpack[ReadOptions],
    ) -> Iterator[pa.RecordBatch]:
        """As `read`, piece by piece: only a few fetches are in memory at a time."""
        reader.check_options("read_batches", options)
        return self._read(topic, partitions, start, end, options)

    def _read(
        self,
        topic: str,
        partitions: Sequence[int] | None,
        start: Place | Mapping[int, Place],
        end: Place | Mapping[int, Place],
        options: ReadOptions,
    ) -> Iterator[pa.RecordBatch]:
        with translated():
            isolation = options.get("isolation", "read_uncommitted")
            ranges = self._run(
                reader.plan(self._connections, topic, partitions, start, end, isolation)
            )
            yield from reader.read_ranges(self._thread, self._connections, ranges, options)

    def read_range(
        self,
        topic: str,
        partition: int,
        start_offset: int,
        end_offset: int,
        **options: Unpack[ReadOptions],
    ) -> Iterator[pa.RecordBatch]:
        """The records of one partition with start_offset <= offset < end_offset.

        The low-level way: offsets are taken at their word, nothing is looked up first. Offsets
        that hold no record (compacted away, markers of transactions) are passed over. Batches
        have the schema `records.columns.RECORD_SCHEMA` (plus headers, if asked for).

        Args:
            headers: add the column `headers`.
            isolation: "read_committed" leaves out records of aborted transactions.
            columns: the columns wanted; all by default.
            max_bytes_per_batch: bytes fetched at a time; a batch has 8 MiB at most.

        Raises:
            OffsetOutOfRange: start_offset is not in the log; names the range that is.
            LogEndsEarly: the log ends (or, read_committed, is stable only) before end_offset.
        """
        reader.check_options("read_range", options)
        ranges = [OffsetRange(topic, partition, start_offset, end_offset)]
        return _translated(reader.read_ranges(self._thread, self._connections, ranges, options))

    def read_ranges(
        self, ranges: Sequence[OffsetRange], **options: Unpack[ReadOptions]
    ) -> Iterator[tuple[OffsetRange, Iterator[pa.RecordBatch]]]:
        """As `read_range`, for many ranges, fetching ahead from one to the next.

        Each comes with its batches, which are to be read before the next range is asked for:
        then they raise a ClientError.
        What they raise concerns their range alone: the others can be read all the same.
        """
        reader.check_options("read_ranges", options)
        each = reader.read_each_range(self._thread, self._connections, ranges, options)
        return ((wanted, _translated(batches)) for wanted, batches in each)

    def consumer(
        self,
        topics: str | Sequence[str] | re.Pattern[str] | None = None,
        *,
        group: str | None = None,
        assign: Collection[TopicPartition] | None = None,
        **options: Unpack[ConsumerKeywords],
    ) -> Consumer:
        """A consumer that gives what is there and what comes, batch by batch.

        With `topics` and `group` it shares their partitions with the group's other members.
        Without a group it reads all partitions that the topics have now. With `assign` it
        reads just these; its offsets are kept in `group`, if that is given.

        Args:
            topics: names, or a compiled pattern that must match the whole name.
            assign: partitions as (topic, partition), instead of `topics`.
            options: see `drumlin.client.consumer.options.ConsumerOptions`.

        Raises:
            ValueError: options that make no sense.
        """
        if (topics is None) == (assign is None):
            raise ValueError("either topics or assign says what to read")
        subscription = None if topics is None else Subscription.of(topics)
        arguments.known_options("consumer", options, ConsumerKeywords.__annotations__)
        chosen = ConsumerOptions(**options)
        kernels.load_in_background()
        with translated():
            return Consumer(
                self._thread, self._connections, group, subscription, assign or (), chosen
            )

    # -- writing -------------------------------------------------------------------------

    def append(
        self, data: pa.Table | pa.RecordBatch, topic: str, **options: Unpack[AppendOptions]
    ) -> AppendReport:
        """Append many records at once; returns when the brokers have acknowledged all.

        Rows keep their order within a partition. By default the producer is idempotent: a
        retry never writes a record twice.

        Args:
            key, value, headers, timestamp: the columns to take them from. "key", "headers" and
                "timestamp" may be missing; a missing timestamp is the time of the call.
            partition: a column of partition numbers, or a function that is given the data and
                the number of partitions and returns such a column. By default Kafka's: murmur2
                of the key, and for null keys one partition a batch.
            compression: "none", "gzip", "snappy", "lz4" or "zstd".
            acks: "all" (-1), "leader" (1) or "none" (0); anything but "all" is not idempotent.
            batch_bytes: the largest record batch; a broker refuses more than
                `max.message.bytes`, 1 MiB by default.
            delivery_timeout_ms: how long to go on trying.
            retries: how often a batch may be sent again; None: as often as there is time. With
                0 a record is written once at most.

        Raises:
            UnknownTopic: there is no such topic, and the broker does not create it.
            DeliveryFailed: a broker refused a batch for good, or time ran out; says which
                partition, why, and what had been acknowledged before.
            TypeError, ValueError: data or options that make no sense.
        """
        arguments.text("topic", topic)
        kernels.load_in_background()
        with translated():
            return append(self._thread, self._producer, data, topic, options)

    def stream_appender(
        self,
        topic: str | None = None,
        *,
        encoding: EncodingRules | None = None,
        delivery: DeliveryRules | None = None,
    ) -> StreamAppender:
        """An appender of rows that arrive in pieces, to one topic or to those they name."""
        kernels.load_in_background()
        return StreamAppender(
            self._thread, self._producer, topic, encoding=encoding, delivery=delivery
        )

    def writer(self, topic: str, **options: Unpack[WriterKeywords]) -> Writer:
        """A writer for records one by one, which collects them into batches.

        For the options see `drumlin.client.writer.WriterOptions`.

        Raises:
            TypeError, ValueError: options that make no sense.
        """
        arguments.text("topic", topic)
        arguments.known_options("writer", options, WriterKeywords.__annotations__)
        chosen = WriterOptions(**options)
        kernels.load_in_background()
        with translated():
            return Writer(self._thread, self._producer, topic, chosen)
