"""What a handler gets beside the request (the client that sent it, and the broker), and returns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

from drumlin.broker.parts.parts import Coordinators
from drumlin.tuples import from_tuple

if TYPE_CHECKING:
    from drumlin.broker.fetch_sessions.sessions import FetchSessions
    from drumlin.broker.hosting.log_moves import LogMoves
    from drumlin.broker.net.connection import Connection
    from drumlin.broker.remote.log_ends import LogEnds
    from drumlin.broker.share_partitions.delivery import ShareDelivery
    from drumlin.broker.topics.topic_pieces import TopicPieces
    from drumlin.turns import Work
    from drumlin.wire.messages import EncodedBody, RequestHeader, Shape
    from drumlin.wire.schema.declaration import Message


class Services(Coordinators, Protocol):
    """All that a handler may use of the broker."""

    fetch_sessions: FetchSessions
    log_moves: LogMoves
    log_ends: LogEnds
    shares: ShareDelivery
    topic_pieces: TopicPieces


class RequestContext(NamedTuple):
    """One request's context; immutable, so that a waiting handler can keep it."""

    broker: Services
    connection: Connection
    header: RequestHeader

    @property
    def version(self) -> int:
        return self.header.api_version

    @property
    def client_id(self) -> str | None:
        return self.header.client_id

    @property
    def client_host(self) -> str:
        """The peer's address as Kafka writes it: a slash before the number."""
        return f"/{self.connection.peer_host}"

    @property
    def listener(self) -> str:
        return self.connection.listener_name


context_of: Final = from_tuple(RequestContext)


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a handler returns when its changes are made and only an answer is awaited.

    The connection may start its next request meanwhile, and may cancel the waiting when the
    peer is gone. A handler that returns a plain awaitable holds the next request back.
    """

    awaitable: Awaitable[Awaited]


#: A message of the schemas, or one that is encoded already.
Response: TypeAlias = "Message | EncodedBody"
#: What a handler returns: a response, or what ends with one: work done in turns, or waiting.
Answer: TypeAlias = "Response | Waiting | Work[Answer] | Awaitable[Awaited]"
#: What it may have waited for.
Awaited: TypeAlias = "Response | Work[Answer]"
#: The function `handle` of an API's module. Its request is of the version that the client chose.
Handle: TypeAlias = "Callable[[RequestContext, Any, Shape], Answer]"
