"""The way in of a listener, as its connections know it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from drumlin.broker.net.channel import Channel
    from drumlin.broker.net.connection import Connection


class NotLetIn(Exception):
    """A peer cannot be let in; the message says why."""


class Door(Protocol):
    """How the connections of one listener get in."""

    listener: str

    def greet(self, connection: Connection, channel: Channel) -> None:
        """Let the peer of an open channel in, or begin its login.

        Raises:
            NotLetIn: the peer cannot be let in.
        """
