"""A capture that goes on over lost connections to database and log, until it is stopped."""

from __future__ import annotations

import random
import time
import uuid
from typing import TYPE_CHECKING, Final

from drumlin.capture.changes import RowsNeeded
from drumlin.capture.database.connections import DatabaseLost
from drumlin.capture.running.following import TablesToAdd
from drumlin.capture.running.options import CaptureOptions
from drumlin.capture.running.session import Session
from drumlin.client.errors import (
    AuthenticationFailed,
    BrokerUnreachable,
    ClientError,
    RequestRefused,
    RequestTimedOut,
)
from drumlin.client.transactions.errors import ProducerFenced

if TYPE_CHECKING:
    from drumlin.client.client import Client

_PAUSE_MIN_S: Final = 0.2
_PAUSE_MAX_S: Final = 15.0
_FENCED_S: Final = 1.0
#: What may pass may as well come back for ever: so often it is tried without a commit between.
_TRIES: Final = 5

#: These last as long as the other side is away.
_UNREACHABLE: Final = (DatabaseLost, BrokerUnreachable, RequestTimedOut)
#: These do not pass by themselves.
_LASTING: Final = (AuthenticationFailed, RequestRefused)


def run(options: CaptureOptions, client: Client) -> None:
    """Until `should_stop` says so.

    Raises:
        CaptureError: something has to be mended first; says what.
        ClientError: the log refuses what cannot be refused in passing.
    """
    session = Session(options, client, uuid.uuid4().hex)
    failures, commits, has_begun = 0, 0, False
    while not options.should_stop():
        try:
            session.go()
        except RowsNeeded as needed:
            options.tell(
                f"topic {needed.topic}: reading it for large values that changes leave out"
            )
            continue
        except TablesToAdd:
            continue
        except (DatabaseLost, ClientError) as error:
            if isinstance(error, _LASTING):
                raise
            has_begun = has_begun or session.commits > 0
            failures = 0 if session.commits > commits else failures + 1
            commits = session.commits
            # What was there before may come back; a wrong address never does.
            if failures >= _TRIES and not (has_begun and isinstance(error, _UNREACHABLE)):
                raise
            pause_s = min(_PAUSE_MIN_S * 2**failures, _PAUSE_MAX_S) * random.uniform(0.5, 1)
            if isinstance(error, ProducerFenced):
                # By another capture, which has written its name by then; or by the broker, as the
                # transaction was open for too long.
                pause_s += _FENCED_S
            options.tell(f"{error}; trying again in {pause_s:.1f} s")
            _pause(options, pause_s)


def _pause(options: CaptureOptions, pause_s: float) -> None:
    deadline = time.monotonic() + pause_s
    while not options.should_stop() and time.monotonic() < deadline:
        time.sleep(0.05)
