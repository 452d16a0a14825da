"""Regular expressions of topic names that members subscribe to."""

from __future__ import annotations

from collections.abc import Iterable

from drumlin.coordination.regexes import compile_regex
from drumlin.wire.error_codes import KafkaError


def check_regex(pattern: str) -> None:
    """
    Raises:
        KafkaError: INVALID_REGULAR_EXPRESSION.
    """
    compile_regex(pattern)


def matching_topics(pattern: str, names: Iterable[str]) -> frozenset[str]:
    """The names that match the whole pattern.

    Slow with very many topics, so it must be called in a thread.
    """
    try:
        compiled = compile_regex(pattern)
    except KafkaError:
        return frozenset()  # written by a broker that accepts more patterns than this one
    return frozenset(name for name in names if compiled.fullmatch(name) is not None)
