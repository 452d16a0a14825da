"""What a connection needs of the door by which it came in."""

from __future__ import annotations

from typing import Any, Final, Protocol

from drumlin.broker.net.channel import Channel
from drumlin.broker.traffic.listener_counts import ListenerCounts

#: Name and version of software that does not tell them (KIP-511), in Kafka's words.
UNKNOWN_SOFTWARE: Final = ("unknown", "unknown")


class Door(Protocol):
    """The authentication of one listener's connections."""

    listener: str
    counts: ListenerCounts

    def greet(self, connection: Any, channel: Channel) -> None:
        """Let the peer of an open channel in, or begin its login.

        Raises:
            NotLetIn: the peer cannot be let in.
        """
