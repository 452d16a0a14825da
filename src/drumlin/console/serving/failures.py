"""Errors of answers as HTTP: one sentence as JSON, and the status that fits."""

from __future__ import annotations

import logging
import re
from typing import Final

from starlette.responses import JSONResponse

from drumlin.client.errors import (
    AuthenticationFailed,
    BrokerUnreachable,
    ClientError,
    NotAuthorized,
    RequestRefused,
    RequestTimedOut,
    UnknownTopic,
    as_client_error,
)
from drumlin.console.answers.compaction import OperatorFailed
from drumlin.console.changes.reset import Changed, NotMovable
from drumlin.peer.peer_error import PeerError
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.wire.error_codes import ErrorCode, KafkaError

_log = logging.getLogger(__name__)
_SENTENCE_MAX: Final = 2_000
_STATUSES: Final[tuple[tuple[type[Exception], int], ...]] = (
    (UnknownTopic, 404),
    (NotAuthorized, 403),
    (RequestRefused, 400),
    (AuthenticationFailed, 401),
    (RequestTimedOut, 504),
    (BrokerUnreachable, 502),
    (ClientError, 502),
    (OperatorFailed, 502),
    (CorruptRecord, 502),
    (Changed, 409),
    (NotMovable, 409),
    (ValueError, 400),
    (TimeoutError, 504),
)


def response_to(error: Exception) -> JSONResponse:
    """The response to a request that failed; an unexpected error is logged, and not shown."""
    if isinstance(error, KafkaError | PeerError):
        error = as_client_error(error)
    if isinstance(error, RequestRefused) and error.code is ErrorCode.group_id_not_found:
        return refused(404, str(error))
    if type(error) is TimeoutError:
        return refused(504, "this takes too long")
    for kind, status in _STATUSES:
        if isinstance(error, kind):
            return refused(status, str(error))
    _log.error("an unexpected error", exc_info=error)
    return refused(500, "an unexpected error: the console's log has it")


def refused(status: int, why: str) -> JSONResponse:
    """An error without control characters or halves of characters, which may come from anywhere."""
    text = why.encode("utf-8", "backslashreplace").decode()
    return JSONResponse({"error": re.sub(r"[\x00-\x1f]", " ", text)[:_SENTENCE_MAX]}, status)
