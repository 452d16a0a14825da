"""The errors of a transaction, each for one outcome that brokers distinguish."""

from __future__ import annotations

from drumlin.client.errors import ClientError


class TransactionError(ClientError):
    """Base class of the errors of one transaction."""

    def __init__(self, message: str, transactional_id: str) -> None:
        super().__init__(f"transaction {transactional_id!r}: {message}")
        self.transactional_id = transactional_id


class TransactionOver(TransactionError):
    """The transaction was used after its end. Nothing was done."""


class TransactionFailed(TransactionError):
    """A part of the transaction could not be written, so it can only be aborted."""


class TransactionAborted(TransactionError):
    """The transaction is already aborted: none of it will ever be read as committed."""


class TransactionTimedOut(TransactionAborted, TimeoutError):
    """The broker has aborted the transaction, as it was open for longer than its timeout.

    An abort from outside (`abort_transaction`) cannot be told apart from this.
    """


class TransactionCommitted(TransactionError):
    """The transaction cannot be aborted: it is already committed."""


class NothingToEnd(TransactionError):
    """The transaction is the latest one of its id, and nothing was written in it."""


class ProducerFenced(TransactionError):
    """Another producer has started with this transactional id, and fenced this one.

    If the transaction was still open, it was aborted then. If not, the broker no longer knows
    whether it had been committed or aborted.

    Attributes:
        was_ended: True: the transaction had ended before, by a commit or an abort, provided that
            only one producer has started since. False: it was open, or had timed out, or several
            producers have started since. None: unknown, or not known yet.
    """

    def __init__(
        self, message: str, transactional_id: str, *, was_ended: bool | None = None
    ) -> None:
        super().__init__(message, transactional_id)
        self.was_ended = was_ended


class UnknownTransaction(TransactionError, LookupError):
    """The coordinator does not know the id (any more), or not with this producer id.

    Brokers forget ids that are unused for days (transactional.id.expiration.ms). Or the coordinator
    has lost a part of its log: it knows the id, but not the partitions that it acknowledged.
    """


class OutcomeUnknown(TransactionError, TimeoutError):
    """The commit or abort was not answered: the transaction may have ended, or still be open.

    A retry is safe.
    """
