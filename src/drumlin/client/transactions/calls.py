"""The calls of a `Client` for transactions: to begin, list, describe and abort them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from drumlin.client import arguments
from drumlin.client.calls import Calls
from drumlin.client.errors import ClientError
from drumlin.client.loops.core_loop import CoreLoop
from drumlin.client.topic_partition import TopicPartition, as_partitions
from drumlin.client.transactions import descriptions, many, open_producers, session, timeout_limit
from drumlin.client.transactions.descriptions import TransactionDescription, TransactionListing
from drumlin.client.transactions.open_producers import OpenProducer
from drumlin.client.transactions.open_transactions import OpenTransactions
from drumlin.client.transactions.transaction import Transaction
from drumlin.client.write.producer import Producer
from drumlin.peer.broker_connections import BrokerConnections

_TIMEOUT_MAX_MS: Final = 2**31 - 1
#: How long closing a client may take, if brokers do not answer.
_CLOSE_LIMIT_MS: Final = 5_000


class TransactionCalls(Calls):
    """The calls of a `Client` for transactions."""

    def __init__(
        self, thread: CoreLoop, connections: BrokerConnections, producer: Producer
    ) -> None:
        super().__init__(thread, connections, producer)
        self._timeout_limit = timeout_limit.TimeoutLimit(connections)
        self._open_transactions = OpenTransactions()

    def transaction(self, transactional_id: str, *, timeout_ms: int | None = None) -> Transaction:
        """Begin a transaction: read_committed readers will see all of it or nothing.

        The previous producer of the id is fenced, and its open transaction aborted.

        Args:
            transactional_id: a name that only this program uses, the same after a restart.
            timeout_ms: the broker aborts the transaction if it is open for longer, counted from
                its first write. None: the broker's maximum (transaction.max.timeout.ms, 15 minutes
                by default). Until it ends, read_committed readers see nothing after it.

        Returns:
            The transaction. As a context manager it commits, or aborts if its block raises.

        Raises:
            RequestRefused: INVALID_TRANSACTION_TIMEOUT: the broker's maximum is lower.
            NotAuthorized: the user may not WRITE to the transactional id.
        """
        arguments.text("transactional_id", transactional_id)
        if timeout_ms is not None:
            arguments.whole_number("timeout_ms", timeout_ms, 1, _TIMEOUT_MAX_MS)
        begun = self._run(
            session.begin(self._connections, self._timeout_limit, transactional_id, timeout_ms)
        )
        return Transaction(self._thread, begun, self._producer, self._open_transactions)

    def _abort_open_transactions(self) -> None:
        """Abort the open transactions, as the client is being closed. Broker errors are logged."""
        limit_ms = min(_CLOSE_LIMIT_MS, self._connections.options.patience_ms)
        self._open_transactions.abort(self._thread, limit_ms)

    def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, TransactionDescription]:
        """The transactions of these ids, as their coordinators describe them.

        Returns:
            By id: `state`, `producer_id`, `epoch`, `start_time`, `timeout_ms`, `partitions` and
            `coordinator`. Unknown ids are left out.

        Raises:
            TypeError: the ids are a single string, not a collection.
        """
        arguments.no_text("transactional_ids", transactional_ids)
        return self._run(descriptions.describe(self._connections, transactional_ids))

    def list_transactions(
        self, *, states: Collection[str] = (), producer_ids: Collection[int] = ()
    ) -> list[TransactionListing]:
        """The transactional ids of the cluster, optionally only those in a state or of a producer.

        Args:
            states: "Ongoing", "PrepareCommit", "CompleteAbort", "Empty", ... as brokers name them.
            producer_ids: the ids of producers.

        Returns:
            For each its `transactional_id`, `producer_id`, `state`, and `coordinator`, the id of
            the broker.

        Raises:
            RequestRefused: INVALID_REQUEST: the brokers do not know a state.
        """
        arguments.no_text("states", states)
        return self._run(descriptions.list_transactions(self._connections, states, producer_ids))

    def abort_transaction(self, transactional_id: str) -> None:
        """Abort an id's open transaction, and fence its producer.

        Raises:
            UnknownTransaction: no coordinator knows the id.
        """
        arguments.text("transactional_id", transactional_id)
        self._run(timeout_limit.abort_by_id(self._connections, transactional_id))

    def abort_transactions(
        self, transactional_ids: Collection[str]
    ) -> dict[str, ClientError | None]:
        """Abort many transactions at once, as `abort_transaction` does.

        Returns:
            For each id the error that `abort_transaction` would raise, or None.

        Raises:
            TypeError: the ids are a single string, not a collection.
        """
        arguments.no_text("transactional_ids", transactional_ids)
        return self._run(many.abort_all(self._connections, transactional_ids))

    def open_producers(
        self, places: Collection[tuple[str, int]]
    ) -> dict[TopicPartition, list[OpenProducer]]:
        """The producers with an open transaction in these partitions.

        Returns:
            For each partition its producers, the oldest first: `producer_id`, `epoch`,
            `first_offset`, `last_write` and `coordinator_epoch`. The first one holds back the last
            stable offset: read_committed readers see nothing from its `first_offset` on.

        Raises:
            UnknownTopic: there is no such topic or partition.
        """
        return self._run(open_producers.open_producers(self._connections, as_partitions(places)))

    def abort_hanging_transaction(self, topic: str, partition: int, producer_id: int) -> None:
        """Abort a hanging transaction in one partition: one that no coordinator knows (any more).

        Brokers before Kafka 3.6 let a late batch begin such a transaction.

        Raises:
            RequestRefused: INVALID_TXN_STATE: the producer has no open transaction there, or a
                coordinator knows it: use `abort_transaction`.
            NotAuthorized: the user lacks the permission ClusterAction, which brokers have.
        """
        self._run(open_producers.abort_hanging(self._connections, topic, partition, producer_id))
