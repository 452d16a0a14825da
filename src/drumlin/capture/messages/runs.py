"""Runs of messages that can be converted together: of rows, and of transactions' begin and end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

#: The kinds of these messages: Begin, Commit, Insert, Update and Delete.
TOGETHER: Final = frozenset(b"BCIUD")
#: The size at which a run is complete; its last message may exceed it.
RUN_MESSAGES: Final = 2000
RUN_BYTES: Final = 1 << 20


def runs(payloads: Iterable[bytes]) -> Iterator[list[bytes]]:
    """The messages in runs, in their order; a message of another kind is a run by itself."""
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
