"""What a handler gets beside the request (the client that sent it, and the broker), and returns.

The module of an API, `handlers/<api>.py`, has a coroutine:

    async def handle(
        context: RequestContext, request: JoinGroupRequest
    ) -> JoinGroupResponse | Later[JoinGroupResponse]:
        ...

- Its first step is taken at once, and mostly it is the only one: then there is no task.
- It awaits what it needs, and calls `give_way` where it works through much (`turns.py`). Meanwhile
  the connection starts no other request: what a client changes, it changes in its order.
- A handler that has made all of its changes, and only waits for an answer, returns a `Later`: one
  that somebody else is going to settle with the response, or `waiting(...)` for a coroutine. The
  connection starts its next request meanwhile, and cancels it when the peer is gone.
- A response of many elements is encoded in a thread, and a long request was read in one.

Produce and Fetch, which carry records, read and write their frames in place. They have a function
`answer` instead, from a frame to the parts of another, or to a `Later` that is settled with them.

A function of a coordinator decides and changes in one step, without an `await` between them. What
takes long before or after that is a coroutine that gives way, or one that is awaited:

    async def commit(self, group_id: str, offsets: Sequence[TopicOffsets]) -> list[ErrorCode]:
        packed = await pack(offsets)  # gives way
        written = self._writer.write(packed)  # checks, appends and takes over in one step
        return await written  # until all in-sync replicas have it
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

from drumlin.broker.parts.parts import Coordinators
from drumlin.tuples import from_tuple

if TYPE_CHECKING:
    from drumlin.broker.fetch_sessions.sessions import FetchSessions
    from drumlin.broker.hosting.log_moves import LogMoves
    from drumlin.broker.loop.later import Later
    from drumlin.broker.net.connection import Connection
    from drumlin.broker.remote.log_ends import LogEnds
    from drumlin.broker.share_partitions.delivery import ShareDelivery
    from drumlin.broker.topics.topic_pieces import TopicPieces
    from drumlin.wire.messages import EncodedBody, RequestHeader
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


#: A message of the schemas, or one that is encoded already.
Response: TypeAlias = "Message | EncodedBody"
#: What becomes of a request; None where its connection has ended.
Handled: TypeAlias = "Response | Later[Any] | None"
#: The function `handle` of an API's module.
Handle: TypeAlias = "Callable[[RequestContext, Any], Coroutine[Any, Any, Handled]]"
