"""Ends a transaction, given its transactional id, producer id and epoch, and explains a refusal.

Brokers refuse with few error codes, and one of these has three meanings. The transaction's state at
its coordinator tells the meanings apart.
"""

from __future__ import annotations

from typing import Any, Final

from drumlin.client.transactions.coordinator import TransactionCoordinator
from drumlin.client.transactions.descriptions import TransactionDescription, describe_one
from drumlin.client.transactions.errors import (
    NothingToEnd,
    OutcomeUnknown,
    ProducerFenced,
    TransactionAborted,
    TransactionCommitted,
    TransactionError,
    TransactionTimedOut,
    UnknownTransaction,
)
from drumlin.client.transactions.requests import (
    END_VERSION_MAX,
    OpenTransaction,
    check,
    end_request,
)
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.peer_error import PeerError
from drumlin.peer.retry import is_retriable
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.schema.declaration import Message

_ABORTED: Final = frozenset({"PrepareAbort", "CompleteAbort", "PrepareEpochFence"})
_EMPTY: Final = "Empty"
_COMMITTED: Final = frozenset({"PrepareCommit", "CompleteCommit"})
#: The transactional id has another producer epoch (by now).
EPOCH_GONE: Final = frozenset({ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch})
_UNKNOWN: Final = frozenset(
    {ErrorCode.invalid_producer_id_mapping, ErrorCode.transactional_id_not_found}
)
#: Codes that, with the transaction's state, reveal its outcome.
TELLING: Final = EPOCH_GONE | _UNKNOWN | {ErrorCode.invalid_txn_state}


async def end_transaction(
    connections: BrokerConnections,
    identity: OpenTransaction,
    *,
    commit: bool,
    coordinator: TransactionCoordinator | None = None,
    is_written: bool = False,
) -> None:
    """Commit or abort; does nothing if that was done before.

    `is_written`: the coordinator has acknowledged a partition or a group in it. If the coordinator
    then has nothing to commit, that is not a success: it has lost its state.

    Raises:
        TransactionError: its class tells the transaction's outcome, or that this is unknown.
        KafkaError, PeerError: refused for another reason; nothing has changed.
    """
    coordinator = coordinator or TransactionCoordinator(connections, identity.transactional_id)
    request = _EndRequest(identity, commit)
    try:
        await coordinator.ask("end_txn", request.send, request.read, END_VERSION_MAX)
    except (KafkaError, PeerError) as error:
        if isinstance(error, KafkaError) and error.code in TELLING:
            fate = await fate_of(connections, identity, error)
            if commit and is_written and isinstance(fate, NothingToEnd):
                fate = _forgotten(identity)
            if not _is_as_requested(fate, commit):
                raise fate from error
        elif is_retriable(error) or request.may_be_done:
            raise _unanswered(identity, commit, error) from error
        else:
            raise


class _EndRequest:
    """An EndTxn request, sent until it is answered, and its number of unanswered attempts."""

    def __init__(self, identity: OpenTransaction, commit: bool) -> None:
        self._request = end_request(identity, commit=commit)
        self._what = f"end_txn of {identity.transactional_id!r}"
        self._unanswered = 0

    @property
    def may_be_done(self) -> bool:
        """Whether an attempt is unanswered, and may have succeeded even if others were refused."""
        return self._unanswered > 0

    def send(self, _: int) -> Message:
        self._unanswered += 1
        return self._request

    def read(self, response: Any) -> None:
        self._unanswered -= 1
        check("end_txn", response.error_code, self._what)


def _unanswered(identity: OpenTransaction, commit: bool, error: Exception) -> OutcomeUnknown:
    end = "commit" if commit else "abort"
    return OutcomeUnknown(f"no answer to the {end}: {error}", identity.transactional_id)


def _is_as_requested(fate: TransactionError, commit: bool) -> bool:
    """Whether the outcome is the requested one. An empty transaction counts as ended either way."""
    wanted = TransactionCommitted if commit else TransactionAborted
    return isinstance(fate, wanted | NothingToEnd)


async def fate_of(
    connections: BrokerConnections, identity: OpenTransaction, error: KafkaError
) -> TransactionError:
    """The outcome of a transaction whose producer is refused with one of the `TELLING` codes."""
    if error.code in _UNKNOWN:
        return _unknown(identity)
    try:
        found = await describe_one(connections, identity.transactional_id)
    except (KafkaError, PeerError):
        # Not allowed, or not supported: only the code is known.
        return _fate_by_code(identity, error.code)
    return _unknown(identity) if found is None else _fate(identity, found)


def _fate(identity: OpenTransaction, found: TransactionDescription) -> TransactionError:
    """The outcome, derived from the transaction's state at its coordinator."""
    if found.producer_id == identity.producer_id and found.epoch == identity.epoch:
        return _ended(identity, found.state)
    # A timeout raises the epoch by one, to fence the producer. A new InitProducerId raises it
    # once more, and leaves another state.
    is_raised = found.producer_id == identity.producer_id and found.epoch == identity.epoch + 1
    if is_raised and found.state in _ABORTED:
        why = "it was open for longer than its timeout, or was aborted from outside"
        return TransactionTimedOut(f"aborted by the broker: {why}", identity.transactional_id)
    # InitProducerId raises the epoch by one, or by two if it aborts a transaction. After the first
    # of these the state is "Ongoing", as it also is when the next producer writes.
    is_in_between = is_raised and found.state == "Ongoing"
    return _fenced(identity, was_ended=None if is_in_between else is_raised)


def _ended(identity: OpenTransaction, state: str) -> TransactionError:
    if state in _COMMITTED:
        return TransactionCommitted("it is committed already", identity.transactional_id)
    if state in _ABORTED:
        return TransactionAborted("it is aborted already", identity.transactional_id)
    if state == _EMPTY:
        return NothingToEnd(f"nothing was written in it (state {state})", identity.transactional_id)
    return TransactionError(f"its end was refused in the state {state}", identity.transactional_id)


def _fate_by_code(identity: OpenTransaction, code: ErrorCode) -> TransactionError:
    if code in EPOCH_GONE:
        return _fenced(identity)
    return TransactionError("it is not open (any more)", identity.transactional_id)


def _fenced(identity: OpenTransaction, *, was_ended: bool | None = None) -> ProducerFenced:
    why = "another producer has started with this id"
    return ProducerFenced(why, identity.transactional_id, was_ended=was_ended)


def _forgotten(identity: OpenTransaction) -> UnknownTransaction:
    why = "the coordinator knows the id, but has lost the partitions of the transaction"
    return UnknownTransaction(why, identity.transactional_id)


def _unknown(identity: OpenTransaction) -> UnknownTransaction:
    why = f"the coordinator does not know it with producer id {identity.producer_id} (any more)"
    return UnknownTransaction(why, identity.transactional_id)
