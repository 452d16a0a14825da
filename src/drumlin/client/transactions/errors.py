"""The fates of a transaction, as far as brokers tell them apart."""

from __future__ import annotations

from drumlin.client.errors import ClientError


class TransactionError(ClientError):
    """Base of all that concerns one transaction."""

    def __init__(self, message: str, transactional_id: str) -> None:
        super().__init__(f"transaction {transactional_id!r}: {message}")
        self.transactional_id = transactional_id


class TransactionOver(TransactionError):
    """It was used after its end. Nothing was done."""


class TransactionFailed(TransactionError):
    """A part of it could not be written, so that it can only be aborted."""


class TransactionAborted(TransactionError):
    """It is aborted already: nothing of it will ever be read as committed."""


class TransactionTimedOut(TransactionAborted, TimeoutError):
    """It was open for longer than its time-out, and the broker has aborted it.

    An abort from outside (`abort_transaction`) leaves the same trace.
    """


class TransactionCommitted(TransactionError):
    """It was to be aborted, and is committed already."""


class NothingToEnd(TransactionError):
    """It is the current transaction of its id, and nothing was written in it."""


class ProducerFenced(TransactionError):
    """Another producer has begun under this transactional id.

    If the transaction was open then, that aborted it. The broker no longer knows whether and how
    it had been ended before.

    Attributes:
        was_ended: True: it had been ended before, by a commit or an abort, provided that only
            one producer has begun since. False: it was open, or had timed out, or more than one
            has begun since. None: unknown, or not known yet.
    """

    def __init__(
        self, message: str, transactional_id: str, *, was_ended: bool | None = None
    ) -> None:
        super().__init__(message, transactional_id)
        self.was_ended = was_ended


class UnknownTransaction(TransactionError, LookupError):
    """The coordinator does not know the id (any more), or not with this producer id.

    Brokers forget ids that are not used for days (transactional.id.expiration.ms). Or it knows
    the id but not what it acknowledged: it has lost a part of its own log.
    """


class OutcomeUnknown(TransactionError, TimeoutError):
    """The request to end it was not answered: it may be ended, or still be open.

    Trying again does no harm.
    """
