"""The session of a client on a plain listener, for tests that call handlers."""

from __future__ import annotations

from drumlin.broker.login.doors import Door
from drumlin.broker.rights.session import ANONYMOUS, Session
from drumlin.broker.traffic.listener_counts import ListenerCounts

SESSION = Session(ANONYMOUS, "127.0.0.1", "PLAINTEXT")


class PlainDoor(Door):
    """The door of a plain listener."""

    def __init__(self) -> None:
        self.listener, self.counts = "PLAINTEXT", ListenerCounts()
        self._context = self._login = self._brokers_login = None
