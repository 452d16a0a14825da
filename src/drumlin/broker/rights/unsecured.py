"""A broker without security: its answers about ACLs, users and tokens.

There is no authorizer and no login, and a connection has no principal for whom a delegation token
could be created. The handlers of these APIs read requests and write responses; this module alone
decides on the answers. They are those of Apache Kafka with the same configuration, except for
credentials: Kafka would store them, though here no login would ever need one.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from drumlin.wire.error_codes import ErrorCode, KafkaError

#: The principal of every request: type and name.
ANONYMOUS: Final = ("User", "ANONYMOUS")
#: Stands for a token's missing times: -1 on the wire.
NO_TIME: Final = datetime.fromtimestamp(0, UTC) - timedelta(milliseconds=1)

_MECHANISMS: Final = (1, 2)  # SCRAM-SHA-256 and -512
_ITERATIONS: Final = range(4096, 16384 + 1)


def no_acls() -> KafkaError:
    """The error for a request to read or change ACLs."""
    return KafkaError(ErrorCode.security_disabled, "no authorizer is configured on the broker")


def no_tokens() -> ErrorCode:
    """The error for a request about delegation tokens on a connection without a login."""
    return ErrorCode.delegation_token_request_not_allowed


def no_credential(user: str) -> KafkaError:
    """The error for a request to describe a user's credentials."""
    return KafkaError(ErrorCode.resource_not_found, f"user {user!r} has no SCRAM credentials")


def refuse_deletion(user: str, mechanism: int) -> KafkaError:
    """The error for a request to delete a user's credential."""
    return _mistake(user, mechanism) or no_credential(user)


def refuse_upsertion(user: str, mechanism: int, iterations: int) -> KafkaError:
    """The error for a request to set a user's credential."""
    mistake = _mistake(user, mechanism)
    if mistake is not None:
        return mistake
    if iterations not in _ITERATIONS:
        message = f"{_ITERATIONS.start} to {_ITERATIONS.stop - 1} iterations, not {iterations}"
        return KafkaError(ErrorCode.unacceptable_credential, message)
    message = (
        "nobody can log in here: this broker has no SASL, so a credential would protect nothing"
    )
    return KafkaError(ErrorCode.unsupported_sasl_mechanism, message)


def _mistake(user: str, mechanism: int) -> KafkaError | None:
    if not user:
        return KafkaError(ErrorCode.unacceptable_credential, "a user must have a name")
    if mechanism not in _MECHANISMS:
        message = f"there is no SCRAM mechanism {mechanism}"
        return KafkaError(ErrorCode.unsupported_sasl_mechanism, message)
    return None
