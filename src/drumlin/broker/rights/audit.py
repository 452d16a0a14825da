"""The audit log: decisions of the authorizer, with principal, host and rule, and logins.

It is the logger `drumlin.audit`, with a line of JSON for each event. Its level chooses the events:

- INFO: denials, and failed logins and TLS handshakes;
- DEBUG: also what was allowed, and successful logins;
- TRACE: all repetitions. At other levels the same event is logged at most once a minute, and the
  number of events in a minute is limited; those left out are counted.

A secret is never logged, nor is the name in a failed login unless there is such a user: it is often
a password.
"""

from __future__ import annotations

import json
import logging
import time
from typing import TYPE_CHECKING, Any, Final

from drumlin.broker.log_lines.forms import AUDIT_FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from drumlin.broker.rights.acls import Kind, Operation
    from drumlin.broker.rights.authorizer import Authorizer
    from drumlin.broker.rights.session import Session

_AUDIT: Final = logging.getLogger("drumlin.audit")

#: Kafka's level below DEBUG.
_TRACE: Final = 5
_PERIOD_S: Final = 60.0
#: Lines in a period: for users; for peers that cannot log in, and for failed handshakes.
_LINES_MAX: Final = 6000
_LINES_OF_STRANGERS_MAX: Final = 600
#: Characters of a value that a client has chosen.
_SHOWN_MAX: Final = 250


class _Sampled:
    """Lets each event through once in a period, up to a maximum number of events."""

    def __init__(self, lines_max: int, clock: Callable[[], float]) -> None:
        self._lines_max, self._clock = lines_max, clock
        self._told: set[object] = set()
        self._left_out = 0
        self._ends_at_s = 0.0

    def lets_through(self, thing: object) -> bool:
        now = self._clock()
        if now >= self._ends_at_s:
            if self._left_out:
                _write("left out", logging.INFO, count=self._left_out)
            self._told.clear()
            self._left_out, self._ends_at_s = 0, now + _PERIOD_S
        if _AUDIT.isEnabledFor(_TRACE):
            return True
        if thing in self._told or len(self._told) >= self._lines_max:
            self._left_out += 1
            return False
        self._told.add(thing)
        return True


class Audit:
    """The audit log of one broker."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._of_users = _Sampled(_LINES_MAX, clock)
        self._of_strangers = _Sampled(_LINES_OF_STRANGERS_MAX, clock)
        self._of_handshakes = _Sampled(_LINES_OF_STRANGERS_MAX, clock)
        #: Whether to call `decision` when something is allowed, too.
        self.tells_allowed = False

    def look_at_level(self) -> None:
        """Notice a change of the logger's level. Called every second."""
        self.tells_allowed = _AUDIT.isEnabledFor(logging.DEBUG)

    def decision(
        self,
        authorizer: Authorizer,
        session: Session,
        asked: tuple[Operation, Kind, str],
        api: str | None,
    ) -> None:
        """Log that a principal was allowed or denied an operation."""
        operation, kind, name = asked
        decided = authorizer.decide(session.principal, session.host, *asked)
        level = logging.DEBUG if decided.is_allowed else logging.INFO
        shown = name[:_SHOWN_MAX]  # the name is kept for a minute, and may have any length
        thing = (session.principal, session.host, decided.is_allowed, operation, kind, shown)
        if not _AUDIT.isEnabledFor(level) or not self._of_users.lets_through(thing):
            return
        _write(
            "allowed" if decided.is_allowed else "denied",
            level,
            principal=session.principal,
            host=session.host,
            listener=session.listener,
            operation=operation.name,
            kind=kind.name,
            name=name,
            api=api,
            rule=decided.rule,
        )

    def login(self, session: Session, mechanism: str) -> None:
        """Log a successful login."""
        thing = (session.principal, session.host, mechanism)
        if self.tells_allowed and self._of_users.lets_through(thing):
            _write(
                "logged in",
                logging.DEBUG,
                principal=session.principal,
                host=session.host,
                listener=session.listener,
                mechanism=mechanism,
            )

    def failed_login(
        self, host: str, listener: str, mechanism: str, user: str | None, why: str
    ) -> None:
        """Log a failed login; `user`: the name, if there is such a user."""
        thing = (host, listener, mechanism, user, why[:_SHOWN_MAX])
        if _AUDIT.isEnabledFor(logging.INFO) and self._of_strangers.lets_through(thing):
            _write(
                "login failed",
                logging.INFO,
                user=user,
                host=host,
                listener=listener,
                mechanism=mechanism,
                why=why,
            )

    def failed_handshake(self, host: str, listener: str, why: str) -> None:
        """Log a failed TLS handshake; `why` has none of the peer's bytes."""
        if _AUDIT.isEnabledFor(logging.INFO) and self._of_handshakes.lets_through(
            (host, listener, why)
        ):
            _write("handshake failed", logging.INFO, host=host, listener=listener, why=why)


#: The audit log of this process.
AUDIT: Final = Audit()


def _write(event: str, level: int, **values: Any) -> None:
    shown = {
        name: value[:_SHOWN_MAX] if isinstance(value, str) else value
        for name, value in values.items()
    }
    tell = _AUDIT.info if level == logging.INFO else _AUDIT.debug
    fields = {"event": event, **shown}
    tell("%s", json.dumps(fields), extra={AUDIT_FIELDS: fields})
