"""Regular expressions of clients, in RE2's syntax as in Apache Kafka.

RE2 takes time in proportion to the text, whatever the pattern, and its memory is limited. What
takes long is to compile: classes of characters are large, so patterns are short. No client can
keep the broker busy with a pattern made for that.
"""

from __future__ import annotations

from typing import Any, Final

import re2

from drumlin.wire.errors import ErrorCode, KafkaError

#: Of one compiled pattern; larger ones are refused.
_MEMORY_BYTES_MAX: Final = 1 << 20
#: The worst patterns of this length take some tenths of a second.
_LENGTH_MAX: Final = 4096


def compile_regex(pattern: str) -> Any:
    """The pattern, with `fullmatch` and the like.

    Raises:
        KafkaError: INVALID_REGULAR_EXPRESSION.
    """
    if len(pattern) > _LENGTH_MAX:
        message = f"a regular expression of {len(pattern)} characters; {_LENGTH_MAX} are allowed"
        raise KafkaError(ErrorCode.invalid_regular_expression, message)
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY_BYTES_MAX
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0]
        told = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        message = f"{pattern!r} is no regular expression: {told}"
        raise KafkaError(ErrorCode.invalid_regular_expression, message) from None
