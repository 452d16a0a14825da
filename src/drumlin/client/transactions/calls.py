"""What a client offers of transactions."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from drumlin.client import arguments
from drumlin.client.calls import Calls
from drumlin.client.errors import ClientError
from drumlin.client.loop_thread import LoopThread
from drumlin.client.offsets import TopicPartition
from drumlin.client.producer import Producer
from drumlin.client.transactions import describing, ending, many, open_producers, session, starting
from drumlin.client.transactions.describing import TransactionDescription, TransactionListing
from drumlin.client.transactions.open_producers import OpenProducer
from drumlin.client.transactions.requests import OpenTransaction
from drumlin.client.transactions.transaction import Transaction
from drumlin.client.transactions.unended import Unended
from drumlin.peer.broker_connections import BrokerConnections

_TIMEOUT_MAX_MS: Final = 2**31 - 1
#: How long closing a client may take, if brokers do not answer.
_CLOSE_LIMIT_MS: Final = 5_000


class TransactionCalls(Calls):
    """The calls of a `Client` that concern transactions."""

    def __init__(
        self, thread: LoopThread, connections: BrokerConnections, producer: Producer
    ) -> None:
        super().__init__(thread, connections, producer)
        self._timeout_limit = starting.TimeoutLimit(connections)
        self._unended = Unended()

    def transaction(self, transactional_id: str, *, timeout_ms: int | None = None) -> Transaction:
        """Begin a transaction: all of it is seen by read_committed readers, or nothing.

        Whoever has used the id before is fenced, and what that had open is aborted.

        Args:
            transactional_id: a name that is this writer's alone, the same after a restart.
            timeout_ms: after so long, from the first write on, the broker aborts it by itself.
                None: as long as the broker allows (transaction.max.timeout.ms, 15 minutes by
                default). Until it is ended, readers see nothing that comes after it.

        Raises:
            RequestRefused: INVALID_TRANSACTION_TIMEOUT: the broker does not allow so much.
            NotAuthorized: no right to WRITE to the transactional id.
        """
        arguments.text("transactional_id", transactional_id)
        if timeout_ms is not None:
            arguments.whole_number("timeout_ms", timeout_ms, 1, _TIMEOUT_MAX_MS)
        begun = self._run(
            session.begin(self._connections, self._timeout_limit, transactional_id, timeout_ms)
        )
        return Transaction(self._thread, begun, self._producer, self._unended)

    def _abort_unended(self) -> None:
        """The client is being closed. Raises nothing that brokers are the reason of."""
        limit_ms = min(_CLOSE_LIMIT_MS, self._connections.options.patience_ms)
        self._unended.abort(self._thread, limit_ms)

    def end_transaction(self, transaction: OpenTransaction, commit: bool) -> None:
        """Commit or abort a transaction that was detached, here or anywhere.

        Does nothing if just that has been done. It is tried until `call_timeout_ms` is over.

        Raises:
            ProducerFenced: somebody else has begun under its id; how it ended is not known.
            TransactionTimedOut: it is aborted, as it was open for too long.
            TransactionAborted: it was to be committed, and somebody has aborted it.
            TransactionCommitted: it was to be aborted, and somebody has committed it.
            UnknownTransaction: the coordinator does not know it (any more).
            OutcomeUnknown: nobody has answered; to call this again does no harm.
        """
        who = OpenTransaction(*transaction)
        arguments.text("transactional_id", who.transactional_id)
        arguments.whole_number("producer_id", who.producer_id, -1, 2**63 - 1)
        arguments.whole_number("epoch", who.epoch, -1, 2**15 - 1)
        self._run(ending.end_transaction(self._connections, who, commit=commit))

    def end_transactions(
        self,
        transactions: Collection[OpenTransaction],
        commit: bool,
        *,
        are_written: bool = False,
    ) -> dict[OpenTransaction, ClientError | None]:
        """As `end_transaction` for many, side by side: what it would raise for each, or None.

        To commit what is empty is a success, unless it is known that something was acknowledged
        in all of them (`are_written`): then the coordinator has lost it, `UnknownTransaction`.
        """
        ended = many.end_all(
            self._connections, transactions, commit=commit, are_written=are_written
        )
        return self._run(ended)

    def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, TransactionDescription]:
        """What coordinators know of these ids; those that nobody knows are left out."""
        arguments.no_text("transactional_ids", transactional_ids)
        return self._run(describing.describe(self._connections, transactional_ids))

    def list_transactions(
        self, *, states: Collection[str] = (), producer_ids: Collection[int] = ()
    ) -> list[TransactionListing]:
        """All transactional ids of the cluster, or those in these states, of these producers.

        States are the protocol's: "Ongoing", "PrepareCommit", "CompleteAbort", "Empty", ...

        Raises:
            RequestRefused: INVALID_REQUEST: brokers do not know such a state.
        """
        arguments.no_text("states", states)
        return self._run(describing.list_transactions(self._connections, states, producer_ids))

    def abort_transaction(self, transactional_id: str) -> None:
        """Abort what is open under an id, and fence whoever has it.

        Raises:
            UnknownTransaction: no coordinator knows the id.
        """
        arguments.text("transactional_id", transactional_id)
        self._run(starting.abort_by_id(self._connections, transactional_id))

    def abort_transactions(
        self, transactional_ids: Collection[str]
    ) -> dict[str, ClientError | None]:
        """As `abort_transaction` for many, side by side: what it would raise for each, or None."""
        arguments.no_text("transactional_ids", transactional_ids)
        return self._run(many.abort_all(self._connections, transactional_ids))

    def open_producers(
        self, places: Collection[TopicPartition]
    ) -> dict[TopicPartition, list[OpenProducer]]:
        """Who has a transaction open in these partitions, the oldest first.

        The first one holds up the last stable offset: readers see nothing from its
        `first_offset` on.
        """
        return self._run(open_producers.open_producers(self._connections, places))

    def abort_hanging_transaction(self, topic: str, partition: int, producer_id: int) -> None:
        """Abort, in one partition, a transaction that no coordinator knows (any more).

        Brokers before Kafka 3.6 let a late batch begin such a transaction.

        Raises:
            RequestRefused: INVALID_TXN_STATE: the producer has none open there, or a coordinator
                knows it: use `abort_transaction`.
            NotAuthorized: this takes the right ClusterAction, as of a broker.
        """
        self._run(open_producers.abort_hanging(self._connections, topic, partition, producer_id))
