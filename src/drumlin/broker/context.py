"""The context of a request: the services that its handler may use, and the results that a handler
may return.

The module of an API, `handlers/<api>.py`, has a coroutine:

    async def handle(
        context: RequestContext, request: JoinGroupRequest
    ) -> JoinGroupResponse | Later[JoinGroupResponse]:
        ...

- The coroutine runs at once up to its first wait. Usually it never waits, and no task is
  created.
- It may await, and calls `give_way` in long loops (`turns.py`). Meanwhile the connection
  starts no other request: a client's changes are made in the order of its requests.
- A handler that has made all of its changes, and only waits for an answer, returns a `Later`: one
  that other code settles with the response, or `waiting(...)` for a coroutine. Meanwhile the
  connection starts its next request; if the peer disconnects, the wait is cancelled.
- A long request is parsed in a thread, and a response of many elements is encoded in one.

Produce and Fetch, which carry records, read and write their frames in place. Instead of `handle`
they have a function `answer`, which takes the request's frame and returns the parts of the
response's frame, or a `Later` that is settled with them.

A coordinator decides and changes its state in one step, without an `await` in between. Longer work
before or after that step is in a coroutine that gives way or waits:

    async def commit(self, group_id: str, offsets: Sequence[TopicOffsets]) -> list[ErrorCode]:
        packed = await pack(offsets)  # gives way
        written = self._writer.write(packed)  # checks, appends and applies in one step
        return await written  # until all in-sync replicas have it
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

from drumlin.broker.parts.parts import Coordinators
from drumlin.broker.quotas.client_quotas import user_of
from drumlin.broker.rights.acls import ALL_OPERATIONS, CLUSTER_NAME, OPERATIONS, Kind, Operation
from drumlin.broker.rights.audit import AUDIT
from drumlin.broker.rights.denials import denied
from drumlin.tuples import from_tuple
from drumlin.wire.messages import API_KEYS

if TYPE_CHECKING:
    from collections import Counter

    from drumlin.broker.fetch_sessions.sessions import FetchSessions
    from drumlin.broker.hosting.log_moves import LogMoves
    from drumlin.broker.login.delegation_tokens import DelegationTokens
    from drumlin.broker.loop.later import Later
    from drumlin.broker.net.connection import Connection
    from drumlin.broker.quotas.mutations import Mutations
    from drumlin.broker.remote.log_ends import LogEnds
    from drumlin.broker.rights.session import Session
    from drumlin.broker.share_partitions.delivery import ShareDelivery
    from drumlin.broker.telemetry.client_telemetry import ClientTelemetry
    from drumlin.broker.topics.topic_pieces import TopicPieces
    from drumlin.wire.messages import EncodedBody, RequestHeader
    from drumlin.wire.schema.declaration import Message


_NAMES: Final = {key: name for name, key in API_KEYS.items()}


class Services(Coordinators, Protocol):
    """The parts of the broker that a handler may use."""

    delegation_tokens: DelegationTokens
    fetch_sessions: FetchSessions
    log_moves: LogMoves
    log_ends: LogEnds
    shares: ShareDelivery
    telemetry: ClientTelemetry
    topic_pieces: TopicPieces


class RequestContext(NamedTuple):
    """One request's context; immutable, so that a waiting handler can keep it."""

    broker: Services
    connection: Connection
    header: RequestHeader
    session: Session

    def may(self, operation: Operation, kind: Kind, name: str) -> bool:
        """Whether the request's principal may do this. The decision is audited."""
        authorizer, session = self.broker.authorizer, self.session
        if authorizer is None:
            return True
        allowed = authorizer.allows(session.principal, session.host, operation, kind, name)
        if not allowed or AUDIT.tells_allowed:
            AUDIT.decision(authorizer, session, (operation, kind, name), self._api)
        return allowed

    def sees(self, operation: Operation, kind: Kind, name: str) -> bool:
        """Like `may`, for a resource that the request does not name: this is not audited."""
        authorizer, session = self.broker.authorizer, self.session
        return authorizer is None or authorizer.allows(
            session.principal, session.host, operation, kind, name
        )

    @property
    def _api(self) -> str | None:
        return _NAMES.get(self.header.api_key)

    def require(self, operation: Operation, kind: Kind, name: str) -> None:
        """
        Raises:
            KafkaError: the request's principal may not do this.
        """
        if not self.may(operation, kind, name):
            raise denied(kind)

    def topic_right(
        self, operation: Operation, *, is_named: bool = True
    ) -> Callable[[str], bool] | None:
        """Whether the principal may do this on a topic, by its name; None: on every topic.

        `is_named`: the request names the topics, so the decisions are audited.
        """
        if self.broker.authorizer is None:
            return None
        return partial(self.may if is_named else self.sees, operation, Kind.TOPIC)

    def operations(self, kind: Kind, name: str) -> int:
        """The operations that the principal may do, as a response's bit set."""
        if self.broker.authorizer is None:
            return ALL_OPERATIONS[kind]
        allowed = (each for each in OPERATIONS[kind] if self.sees(each, kind, name))
        return sum(1 << each for each in allowed)

    def may_cluster(self, operation: Operation) -> bool:
        """Like `may`, for the cluster."""
        return self.may(operation, Kind.CLUSTER, CLUSTER_NAME)

    def sees_cluster(self, operation: Operation) -> bool:
        """Like `sees`, for the cluster: used where a right to a single resource suffices, too."""
        return self.sees(operation, Kind.CLUSTER, CLUSTER_NAME)

    def require_cluster(self, operation: Operation) -> None:
        """Like `require`, for the cluster."""
        self.require(operation, Kind.CLUSTER, CLUSTER_NAME)

    def cluster_operations(self) -> int:
        """Like `operations`, for the cluster: none without the right to describe it."""
        if not self.sees_cluster(Operation.DESCRIBE):
            return 0
        return self.operations(Kind.CLUSTER, CLUSTER_NAME)

    @property
    def errors(self) -> Counter[int]:
        """The counts of errors in answers of this API, by code."""
        return self.connection.counts.of_key(self.header.api_key).errors

    @property
    def version(self) -> int:
        return self.header.api_version

    @property
    def client_id(self) -> str | None:
        return self.header.client_id

    @property
    def client(self) -> tuple[str, str]:
        """The user and the client id, as quotas know them."""
        return user_of(self.session.principal), self.header.client_id or ""

    def mutations(self, strict_from: int) -> Mutations | None:
        """The client's quota on topic and partition changes; None if there is none.

        strict_from: the version from which changes that exceed the quota are refused.
        """
        quotas = self.broker.quotas
        if quotas is None:
            return None
        is_strict = self.version >= strict_from
        return quotas.mutations.for_request(*self.client, quotas.now_ms, is_strict=is_strict)

    @property
    def client_host(self) -> str:
        """The peer's address as Kafka writes it: a slash before the number."""
        return f"/{self.connection.peer_host}"

    @property
    def listener(self) -> str:
        return self.session.listener


context_of: Final = from_tuple(RequestContext)


#: A response message, perhaps encoded already.
Response: TypeAlias = "Message | EncodedBody"
#: The result of a handler; None if its connection has closed.
Handled: TypeAlias = "Response | Later[Any] | None"
#: The function `handle` of an API's module.
Handle: TypeAlias = "Callable[[RequestContext, Any], Coroutine[Any, Any, Handled]]"
