"""What can become of a transaction, told apart as far as brokers tell it apart."""

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
    """Something of it could not be written, so that it can only be aborted."""


class TransactionAborted(TransactionError):
    """It is aborted already: nothing of it will ever be read as committed."""


class TransactionTimedOut(TransactionAborted, TimeoutError):
    """It was open for longer than its time-out, and the broker has aborted it.

    Somebody who aborts a transaction from outside leaves the same trace.
    """


class TransactionCommitted(TransactionError):
    """It was to be aborted, and is committed already."""


class NothingToEnd(TransactionError):
    """It is the id's present one, and nothing was written in it."""


class ProducerFenced(TransactionError):
    """Somebody else has begun under this transactional id.

    If the transaction was open then, it was aborted by that. Whether it had been ended before,
    and how, the broker does not know any more.

    Attributes:
        was_ended: True: it had been ended before, by a commit or an abort, if the id was begun
            anew only once since. False: it was open, or had timed out, or the id was begun anew
            more than once. None: it does not show, or not yet.
    """

    def __init__(
        self, message: str, transactional_id: str, *, was_ended: bool | None = None
    ) -> None:
        super().__init__(message, transactional_id)
        self.was_ended = was_ended


class UnknownTransaction(TransactionError, LookupError):
    """The coordinator does not know the id (any more), or not with this producer id.

    Brokers forget ids that nobody has used for days (transactional.id.expiration.ms). Or it knows
    the id and nothing of what was acknowledged: it has lost a part of its own log.
    """


class OutcomeUnknown(TransactionError, TimeoutError):
    """Nobody has answered the request to end it: it may be ended, or be open still.

    To ask again does no harm.
    """
