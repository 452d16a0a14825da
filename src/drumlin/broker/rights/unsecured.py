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


def no_acls() -> KafkaError:
    """The error for a request to read or change ACLs."""
    return KafkaError(ErrorCode.security_disabled, "no authorizer is configured on the broker")


def no_tokens() -> ErrorCode:
    """The error for a request about delegation tokens on a connection without a login."""
    return ErrorCode.delegation_token_request_not_allowed
