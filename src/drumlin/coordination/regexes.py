"""Regular expressions of clients, in RE2's syntax as in Apache Kafka.

RE2 takes time in proportion to the text, whatever the pattern, and its memory is limited. Compiling
is slow: above all Unicode classes, each of which has hundreds of ranges, and repetitions. So both
are limited, as are the pattern's length and memory: the worst patterns take a few milliseconds.
Threads would not help, as RE2's binding holds the GIL during compilation. During matching it
releases the GIL: if that may take longer than a turn of the event loop (`takes_long`), a thread
does it, in seconds at most. Groups in the pattern are not captured, which would take 50 times as
long.
"""

from __future__ import annotations

import re
from typing import Any, Final

import re2

from drumlin.wire.error_codes import ErrorCode, KafkaError

#: The memory limit of a compiled pattern; larger patterns are refused.
_MEMORY_BYTES_MAX: Final = 128 << 10
_LENGTH_MAX: Final = 4096
#: `\\p` and `\\P`; each takes up to 0.4 ms.
_UNICODE_CLASSES_MAX: Final = 16
#: Repetitions in total; more would not fit into the memory, as each takes 16 bytes.
_REPETITIONS_MAX: Final = _MEMORY_BYTES_MAX // 16
_repetitions: Final = re.compile(r"\{(\d{1,4})(?:,(\d{0,4}))?\}").findall
#: Steps are characters of the text times instructions of the pattern; each takes some 10 ns.
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
