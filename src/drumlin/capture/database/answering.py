"""Connections on which a statement does not wait for ever for a silent server."""

from __future__ import annotations

from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.waiting import Ready, Wait

from drumlin.capture.database import silence
from drumlin.capture.sockets import ready

_T = TypeVar("_T")


class AnsweredConnection(psycopg.Connection[Any]):
    """A statement fails with psycopg's OperationalError if the server is silent for `QUICK_S`."""

    def wait(self, gen: PQGen[_T], *_: Any, **__: Any) -> _T:
        """The result of `gen`, which yields when it needs the socket to be readable or writable."""
        try:
            wanted = next(gen)
            while True:
                wanted = gen.send(_ready(self.pgconn.socket, wanted))
        except StopIteration as ended:
            found: _T = ended.value
            return found


def _ready(socket: int, wanted: Wait) -> Ready:
    readable, writable = ready(
        socket, silence.QUICK_S, reads=bool(wanted & Wait.R), writes=bool(wanted & Wait.W)
    )
    if not readable and not writable:
        raise psycopg.OperationalError(silence.text(silence.QUICK_S))
    return Ready((Ready.R if readable else 0) | (Ready.W if writable else 0))
