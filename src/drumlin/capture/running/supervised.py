"""Keeps a capture running when connections to database or log are lost, until it is stopped."""

from __future__ import annotations

import random
import time
import uuid
from typing import TYPE_CHECKING, Final, Protocol

from drumlin.capture.changes import RowsNeeded
from drumlin.capture.errors import DatabaseChanged, DatabaseLost
from drumlin.capture.running import metrics
from drumlin.capture.running.heeding import BeginAgain
from drumlin.capture.running.options import CaptureOptions
from drumlin.capture.running.progress import Phase, Progress
from drumlin.client.errors import (
    AuthenticationFailed,
    BrokerUnreachable,
    ClientError,
    RequestRefused,
    RequestTimedOut,
)
from drumlin.client.transactions.errors import ProducerFenced, TransactionAborted
from drumlin.client.values.errors import RegistryUnavailable

if TYPE_CHECKING:
    from drumlin.client.client import Client

_PAUSE_MIN_S: Final = 0.2
_PAUSE_MAX_S: Final = 15.0
#: An additional pause after the capture was fenced.
_FENCED_S: Final = 1.0
#: The number of consecutive failures, without a commit in between, after which retries end.
_TRIES: Final = 5

#: Errors that no retry cures.
_LASTING: Final = (AuthenticationFailed, RequestRefused)


class Session(Protocol):
    """The capture of one database, over any number of connections."""

    has_connected: bool
    has_reached_log: bool
    commits: int

    def __init__(
        self, options: CaptureOptions, client: Client, run: str, progress: Progress
    ) -> None: ...
    def go(self) -> None: ...


def run(options: CaptureOptions, client: Client, kind: type[Session]) -> None:
    """Run a capture until `should_stop` returns True.

    Raises:
        CaptureError: something must be fixed first; the message says what.
        ClientError: the log rejects a request for good, or retries have failed too often.
    """
    progress = Progress(time.time_ns() // 1_000_000)
    with metrics.served(options.metrics_listener, options.name, progress):
        _run(options, kind(options, client, uuid.uuid4().hex, progress), progress)


def _run(options: CaptureOptions, session: Session, progress: Progress) -> None:
    failures = commits = 0
    while not options.should_stop():
        try:
            session.go()
        except RowsNeeded as needed:
            options.tell(
                f"topic {needed.topic}: reading it for large values that changes leave out"
            )
            continue
        except BeginAgain:
            continue
        except (DatabaseLost, ClientError) as error:
            if isinstance(error, _LASTING):
                raise
            failures = 0 if session.commits > commits else failures + 1
            commits = session.commits
            if failures >= _TRIES and not _may_return(session, error):
                raise
            pause_s = min(_PAUSE_MIN_S * 2**failures, _PAUSE_MAX_S) * random.uniform(0.5, 1)
            if isinstance(error, (ProducerFenced, TransactionAborted)):
                # Either another capture has started, which writes its position during this pause,
                # or the broker has aborted a transaction that was open for too long.
                pause_s += _FENCED_S
            progress.restarts += 1
            progress.began(Phase.WAITING)
            options.tell(f"{error}; trying again in {pause_s:.1f} s")
            _pause(options, pause_s)


def _may_return(session: Session, error: Exception) -> bool:
    """Whether the lost server was reached before, so its address is not simply wrong."""
    if isinstance(error, (DatabaseChanged, RegistryUnavailable)):
        return session.commits > 0
    if isinstance(error, DatabaseLost):
        return session.has_connected
    return session.has_reached_log and isinstance(error, (BrokerUnreachable, RequestTimedOut))


def _pause(options: CaptureOptions, pause_s: float) -> None:
    deadline = time.monotonic() + pause_s
    while not options.should_stop() and time.monotonic() < deadline:
        time.sleep(0.05)
