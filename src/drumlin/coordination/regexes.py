"""Regular expressions of clients, in RE2's syntax as in Apache Kafka.

RE2 takes time in proportion to the text, whatever the pattern, and its memory is limited. What
takes long is to compile: above all the classes of Unicode, each of which is hundreds of ranges.
So a pattern has few of those, is short, and gets little memory: the worst take some milliseconds.
Nobody asks which part of a name a group has matched. To find that out takes 50 times as long.
"""

from __future__ import annotations

from typing import Any, Final

import re2

from drumlin.wire.errors import ErrorCode, KafkaError

#: Of one compiled pattern; larger ones are refused.
_MEMORY_BYTES_MAX: Final = 128 << 10
_LENGTH_MAX: Final = 4096
#: `\\p` and `\\P`; each takes up to 0.4 ms.
_UNICODE_CLASSES_MAX: Final = 16


def compile_regex(pattern: str) -> Any:
    """The pattern, with `fullmatch` and the like.

    Raises:
        KafkaError: INVALID_REGULAR_EXPRESSION.
    """
    if len(pattern) > _LENGTH_MAX:
        message = f"a regular expression of {len(pattern)} characters; {_LENGTH_MAX} are allowed"
        raise KafkaError(ErrorCode.invalid_regular_expression, message)
    classes = pattern.count(r"\p") + pattern.count(r"\P")
    if classes > _UNICODE_CLASSES_MAX:
        message = (
            f"a regular expression with {classes} classes of Unicode; "
            f"{_UNICODE_CLASSES_MAX} are allowed"
        )
        raise KafkaError(ErrorCode.invalid_regular_expression, message)
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY_BYTES_MAX
    options.never_capture = True
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0]
        told = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        message = f"{pattern!r} is no regular expression: {told}"
        raise KafkaError(ErrorCode.invalid_regular_expression, message) from None
