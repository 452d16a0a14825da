"""Regular expressions of topic names, in RE2's syntax as in Apache Kafka.

RE2 takes time in proportion to the text, whatever the pattern, and its memory is limited: no
member can keep the broker busy with a pattern made for that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import re2

from drumlin.wire.errors import ErrorCode, KafkaError

#: Of one compiled pattern; larger ones are refused.
_MEMORY_BYTES_MAX: Final = 1 << 20


def check_regex(pattern: str) -> None:
    """
    Raises:
        KafkaError: INVALID_REGULAR_EXPRESSION.
    """
    try:
        _compile(pattern)
    except re2.error as error:
        reason = error.args[0]
        told = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        message = f"{pattern!r} is no regular expression: {told}"
        raise KafkaError(ErrorCode.invalid_regular_expression, message) from None


def matching_topics(pattern: str, names: Iterable[str]) -> frozenset[str]:
    """The names that match from their first to their last character.

    May take a while with very many topics: meant for a thread.
    """
    try:
        compiled = _compile(pattern)
    except re2.error:
        return frozenset()  # it comes from the log of a broker that knew more
    return frozenset(name for name in names if compiled.fullmatch(name) is not None)


def _compile(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY_BYTES_MAX
    return re2.compile(pattern, options)
