"""Regular expressions of clients, in RE2's syntax as in Apache Kafka.

For any pattern, RE2 matches in time proportional to the text, and with limited memory. Compiling a
pattern is slow, above all for repetitions and for Unicode classes, each of which has hundreds of
ranges. So the numbers of both are limited, as are the pattern's length and memory; compiling the
worst patterns takes a few milliseconds. Threads would not help, as RE2's binding holds the GIL
while it compiles. It releases the GIL while it matches: matching that may take longer than a turn
of the event loop (`takes_long`) runs in a thread, for seconds at most. Groups in the pattern are
not captured, as capturing would take 50 times as long.
"""

from __future__ import annotations

import re
from typing import Any, Final

import re2

from drumlin.wire.error_codes import ErrorCode, KafkaError

#: The memory limit of a compiled pattern; larger patterns are refused.
_MEMORY_BYTES_MAX: Final = 128 << 10
_LENGTH_MAX: Final = 4096
#: The maximum number of `\\p` and `\\P` in a pattern; compiling each takes up to 0.4 ms.
_UNICODE_CLASSES_MAX: Final = 16
#: The maximum number of repetitions in a pattern; each takes 16 bytes of the pattern's memory.
_REPETITIONS_MAX: Final = _MEMORY_BYTES_MAX // 16
_repetitions: Final = re.compile(r"\{(\d{1,4})(?:,(\d{0,4}))?\}").findall
#: The step limit in the event loop: characters of the text times instructions of the pattern. A
#: step takes some 10 ns.
_STEPS_MAX: Final = 200_000


def compile_regex(pattern: str) -> Any:
    """The compiled pattern, with `fullmatch` and similar methods.

    Raises:
        KafkaError: INVALID_REGULAR_EXPRESSION.
    """
    if len(pattern) > _LENGTH_MAX:
        message = f"a regular expression of {len(pattern)} characters; {_LENGTH_MAX} are allowed"
        raise KafkaError(ErrorCode.invalid_regular_expression, message)
    classes = pattern.count(r"\p") + pattern.count(r"\P")
    if classes > _UNICODE_CLASSES_MAX:
        message = (
            f"a regular expression with {classes} Unicode classes; "
            f"{_UNICODE_CLASSES_MAX} are allowed"
        )
        raise KafkaError(ErrorCode.invalid_regular_expression, message)
    repetitions = sum(int(most or least) for least, most in _repetitions(pattern))
    if repetitions > _REPETITIONS_MAX:
        message = f"a regular expression that repeats {repetitions} times; that is too large"
        raise KafkaError(ErrorCode.invalid_regular_expression, message)
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY_BYTES_MAX
    options.never_capture = True
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0]
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        message = f"{pattern!r} is not a regular expression: {text}"
        raise KafkaError(ErrorCode.invalid_regular_expression, message) from None


def takes_long(compiled: Any, text: str) -> bool:
    """Whether matching may take longer than a turn of the loop: milliseconds to seconds."""
    return bool(len(text) * compiled.programsize > _STEPS_MAX)


def matches(compiled: Any, text: str) -> bool:
    """Whether the pattern matches all of the text."""
    return compiled.fullmatch(text) is not None
