"""Errors of requests: one becomes a response with an error code, one closes the connection.

`KafkaError` becomes a response. Bytes that do not form a message raise `MalformedMessage`, which
closes the connection, as in Apache Kafka.
"""

from __future__ import annotations

from typing import Final

from drumlin.wire.error_code import ErrorCode

__all__ = ["ErrorCode", "KafkaError", "MalformedMessage", "error_of"]

_BY_NUMBER: Final[dict[int, ErrorCode]] = {each.value: each for each in ErrorCode}
#: A string of the protocol has 32,767 bytes at most, and a character may take four bytes.
_CHARACTERS_MAX: Final = 8_000


def error_of(number: int) -> ErrorCode:
    """The error code with this number; UNKNOWN_SERVER_ERROR for an unknown number."""
    return _BY_NUMBER.get(number, ErrorCode.unknown_server_error)


class KafkaError(Exception):
    """An error response: a code and, if the protocol has a field for it, a message.

    A message may quote a client's input, and is cut if it would not fit into the response.
    """

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        if message is not None and len(message) > _CHARACTERS_MAX:
            message = f"{message[:_CHARACTERS_MAX]}..."
        super().__init__(f"{code.name}: {message}" if message else code.name)
        self.code = code
        self.message = message


class MalformedMessage(ValueError):
    """The peer sent bytes that do not parse, so that no response is possible."""
