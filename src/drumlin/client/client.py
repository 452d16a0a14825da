"""The synchronous client, for Python programs and Spark tasks.

A `Client` owns one thread with an event loop, which runs all its connections; a call hands a
coroutine to that thread and waits for it, unless its name ends in `_async`. Decoding and encoding
run in the caller's thread, so that network and kernels overlap. A client may be used from several
threads. It must not be used after a fork, and cannot be pickled: a worker process opens its own
client with `connect`.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Mapping, Sequence
from typing import NoReturn, Self

from drumlin.client import arguments
from drumlin.client.admin import admin, deleted_records
from drumlin.client.admin.admin import TopicDescription
from drumlin.client.arguments import ConfigValue
from drumlin.client.deprecated_calls import DeprecatedCalls
from drumlin.client.errors import ClientError, TopicExists
from drumlin.client.group_calls import GroupCalls
from drumlin.client.loops.core_loop import CoreLoop
from drumlin.client.loops.loop_thread import LoopThread
from drumlin.client.other_names.kafkas_names import knows_kafkas_names
from drumlin.client.places import End, OffsetSpec, check_ends
from drumlin.client.read import offsets
from drumlin.client.read.offsets import OffsetAndTimestamp
from drumlin.client.reading_calls import ReadingCalls
from drumlin.client.restore_calls import RestoreCalls
from drumlin.client.state_calls import StateCalls
from drumlin.client.table_calls import TableCalls
from drumlin.client.topic_partition import AnyPartition, TopicPartition, by_partition
from drumlin.client.write.producer import Producer
from drumlin.client.writing_calls import WritingCalls
from drumlin.peer.broker_connections import BrokerConnections, parse_bootstrap
from drumlin.peer.options import Isolation, PeerOptions
from drumlin.peer.security.security import Security


@knows_kafkas_names
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
        client_id: the name of this client in brokers' logs and quotas.
        request_timeout_ms: the timeout of one request.
        call_timeout_ms: the timeout of one call, including retries; by default that of one
            request. With a longer one, a call survives a broker that hangs.
        connect_timeout_ms: the timeout of a connection to one broker.
        retry_backoff_ms, retry_backoff_max_ms: the first and the longest pause before a retry.
        check: send a request before this returns, so that a wrong address fails here and at
            once. Without it the first call connects, and waits for a broker as every call does.
        client_rack: the rack (zone) of this machine, as named by the brokers. If the leader of a
            partition knows a replica there, ranges are read from that replica (KIP-392).
        security: TLS and login, as a `drumlin.security.Security` or as Kafka's properties
            ("security.protocol", "sasl.mechanism", ...). Without it nothing is encrypted.

    Raises:
        BrokerUnreachable: none of the brokers answers.
        AuthenticationFailed: a broker's certificate is not trusted, or it refuses the login.
        TypeError, ValueError: an option is invalid.
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


class Client(
    GroupCalls, ReadingCalls, StateCalls, TableCalls, WritingCalls, RestoreCalls, DeprecatedCalls
):
    """A client of one cluster, in one process. Use it as a context manager, or `close` it.

    `connect` creates it, checks its options and sends a first request.

    Any call that sends a request may raise `BrokerUnreachable`, `RequestTimedOut`,
    `AuthenticationFailed` and `NotAuthorized`, and a `ClientError` once the client is closed.
    "Raises" lists the other errors of a call.
    """

    def __init__(
        self,
        bootstrap: str,
        options: PeerOptions | None = None,
        core_loop: CoreLoop | None = None,
    ) -> None:
        """`core_loop`: the loop of the connections; by default one in a thread of its own."""
        options = options or PeerOptions()
        self.bootstrap = bootstrap
        self.options = options
        #: Held while one thread closes the client, so that no other stops the loop meanwhile.
        #: Reentrant, as a signal handler may close the client while its thread does.
        self._closing = threading.RLock()
        addresses = parse_bootstrap(bootstrap)
        connections = BrokerConnections(addresses, options)
        core_loop = core_loop or LoopThread(f"drumlin-client {bootstrap}")
        super().__init__(core_loop, connections, Producer(connections))

    # -- life ----------------------------------------------------------------------------

    def close(self) -> None:
        """Close all connections and stop the thread. Closing twice does nothing.

        Open transactions are aborted, if that takes only a few seconds, and open tables are closed.
        If several threads close the client, each returns once it is closed.

        Raises:
            ClientError: in a callback, which would wait for itself. Broker errors are not raised.
        """
        if not self._thread.is_running:
            return
        self._thread.check_may_wait()
        with self._closing:
            if not self._thread.is_running:
                return
            try:
                self._close_tables()
                with contextlib.suppress(ClientError):
                    self._abort_open_transactions()
                    self._thread.call_soon(self._producer.close)
                    self._run(self._connections.close())
            finally:
                self._thread.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "" if self._thread.is_running else ", closed"
        return f"<drumlin.Client of {self.bootstrap}{state}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Client holds sockets and a thread: connect again in the other process")

    def refresh(self) -> None:
        """Refresh the list of brokers, which also checks that the cluster can be reached.

        Raises:
            BrokerUnreachable: no broker answers. There is no retry.
        """
        self._run(self._connections.refresh(()))

    # -- topics --------------------------------------------------------------------------

    def list_topics(
        self, pattern: str | re.Pattern[str] | None = None, *, internal: bool = False
    ) -> list[str]:
        """The names of the topics that this user may see.

        Args:
            pattern: must match the whole name, as in Spark and Kafka.
            internal: include internal topics, such as `__consumer_offsets`.

        Returns:
            The names, sorted.

        Raises:
            re.error: `pattern` is not a regular expression.
        """
        names = self._run(admin.list_topics(self._connections, internal))
        if pattern is None:
            return names
        matches = re.compile(pattern).fullmatch
        return [name for name in names if matches(name)]

    def describe_topics(self, names: Sequence[str] | None = None) -> dict[str, TopicDescription]:
        """Topics with their partitions, leaders and replicas; all of them by default.

        Returns:
            By name: `topic_id`, `is_internal`, and `partitions`, for each its `index`, `leader`,
            `leader_epoch`, `replicas` and `isr`.

        Raises:
            UnknownTopic: one of `names` does not exist.
        """
        return self._run(admin.describe_topics(self._connections, names))

    def partitions(self, topic: str) -> list[int]:
        """The partitions of a topic.

        Returns:
            Their numbers, sorted.

        Raises:
            UnknownTopic: there is no such topic.
        """
        return self._run(self._connections.partitions(topic))

    @knows_kafkas_names
    def create_topic(
        self,
        topic: str,
        partitions: int = -1,
        *,
        replication_factor: int = -1,
        configs: Mapping[str, ConfigValue] | None = None,
        if_not_exists: bool = False,
    ) -> bool:
        """Create a topic and wait until all its partitions have leaders.

        Args:
            topic: its name.
            partitions: their number; -1: the broker's default (`num.partitions`).
            replication_factor: -1: the broker's default (`default.replication.factor`).
            configs: Kafka's keys, e.g. {"cleanup.policy": "compact", "retention.ms": 60_000}.
            if_not_exists: leave an existing topic of this name unchanged.

        Returns:
            Whether the topic was created.

        Raises:
            TopicExists: the topic already exists.
            RequestRefused: the broker does not accept the name, a number or a key.
        """
        arguments.text("topic", topic)
        texts = arguments.config_values("configs", configs or {})
        wanted = admin.NewTopic(topic, partitions, replication_factor, texts)
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
        """Raise the number of a topic's partitions to `count`, and wait until brokers know them.

        Raises:
            UnknownTopic: there is no such topic.
            RequestRefused: INVALID_PARTITIONS: the topic already has that many, or more.
        """
        self._run(admin.add_partitions(self._connections, topic, count))

    def topic_configs(self, topic: str) -> dict[str, admin.ConfigEntry]:
        """All configuration keys of a topic.

        Returns:
            By key: `value`, `is_default` and `is_read_only`.

        Raises:
            UnknownTopic: there is no such topic.
        """
        return self._run(admin.topic_configs(self._connections, topic))

    def set_topic_configs(self, topic: str, changes: Mapping[str, ConfigValue | None]) -> None:
        """Set configuration keys of a topic; None resets a key to its default.

        Raises:
            UnknownTopic: there is no such topic.
            RequestRefused: INVALID_CONFIG: unknown key or invalid value.
            TypeError: a value is not a string, number or bool.
        """
        cleared = {key: None for key, value in changes.items() if value is None}
        given = {key: value for key, value in changes.items() if value is not None}
        texts: dict[str, str | None] = {**cleared, **arguments.config_values("changes", given)}
        self._run(admin.set_topic_configs(self._connections, topic, texts))

    # -- offsets -------------------------------------------------------------------------

    def list_offsets(
        self,
        wanted: Mapping[AnyPartition, OffsetSpec],
        *,
        isolation: Isolation = "read_uncommitted",
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Look up offsets in many partitions at once, with one request per broker.

        Args:
            wanted: by (topic, partition): "earliest", "latest", "max_timestamp", or a time (an
                aware datetime, or `Milliseconds`): the first record at or after it.
            isolation: "read_committed" moves "latest" to the last stable offset.

        Returns:
            For each partition its `offset` and `leader_epoch`, and the `timestamp` of the record
            that was found; offset -1 if all records are older.

        Raises:
            UnknownTopic: a topic, or a partition of it, does not exist.
            TypeError, ValueError: a key is not a partition, or a value is not a place.
        """
        arguments.isolation_level(isolation)
        places = by_partition(wanted)
        return self._run(offsets.list_offsets(self._connections, places, isolation))

    def offsets(
        self,
        topic: str,
        at: OffsetSpec = "latest",
        *,
        isolation: Isolation = "read_uncommitted",
    ) -> dict[int, int]:
        """Look up one place in every partition of a topic.

        Args:
            topic: the topic's name.
            at: as in `list_offsets`. If all records are older than a time, the result is the end
                offset.
            isolation: as in `list_offsets`.

        Returns:
            The offset, by partition.

        Raises:
            UnknownTopic: there is no such topic.
            TypeError, ValueError: `at` is not a place.
        """
        arguments.isolation_level(isolation)
        return self._run(offsets.offsets_of_topic(self._connections, topic, at, isolation))

    def delete_records(
        self,
        topic: str,
        partitions: Sequence[int] | None = None,
        *,
        before: End | Mapping[int, End],
    ) -> dict[int, int]:
        """Delete the records before an offset, which becomes the log start offset if it was lower.

        Args:
            topic: the topic's name.
            partitions: their numbers; all by default.
            before: the first offset to keep, or "latest" to keep nothing; or a dict with one of
                these for each partition.

        Returns:
            The new log start offset, by partition.

        Raises:
            UnknownTopic: there is no such topic or partition.
            RequestRefused: OFFSET_OUT_OF_RANGE: an offset is beyond the end; POLICY_VIOLATION: the
                cleanup policy is "compact" only. The records of other partitions may be deleted;
                a note lists these.
            TypeError, ValueError: an argument is invalid.
        """
        arguments.text("topic", topic)
        partitions = arguments.partition_numbers(partitions)
        check_ends("before", before)
        return self._run(
            deleted_records.delete_in_topic(self._connections, topic, partitions, before)
        )
