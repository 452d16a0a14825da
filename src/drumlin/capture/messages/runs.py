"""Runs of messages that may be taken together: of rows, and of where transactions begin and end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

#: The kinds of these messages: Begin, Commit, Insert, Update and Delete.
TOGETHER: Final = frozenset(b"BCIUD")
#: How large runs become; with the last message they may be larger.
RUN_MESSAGES: Final = 2000
RUN_BYTES: Final = 1 << 20


def runs(payloads: Iterable[bytes]) -> Iterator[list[bytes]]:
    """The messages in runs, in their order; each of another kind by itself."""
    run: list[bytes] = []
    size_bytes = 0
    for payload in payloads:
        is_alone = not payload or payload[0] not in TOGETHER
        if run and (is_alone or len(run) >= RUN_MESSAGES or size_bytes >= RUN_BYTES):
            yield run
            run, size_bytes = [], 0
        if is_alone:
            yield [payload]
        else:
            run.append(payload)
            size_bytes += len(payload)
    if run:
        yield run
