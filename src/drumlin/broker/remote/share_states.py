"""The states of share partitions, from their share coordinator on any broker.

The coordinator on this broker is called directly, others by a request. Calls are repeated while
there is no coordinator or it cannot be reached, so all of them must be safe to repeat. Calls to one
broker about one group are batched.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID

from drumlin.broker.parts.parts import Coordinators
from drumlin.broker.peers.coordinators import coordinator_of
from drumlin.broker.peers.peers import not_asked
from drumlin.broker.remote.share_state_messages import (
    Call,
    Delete,
    Initialize,
    Read,
    Summarize,
    Write,
    answers,
    api_of,
    request,
    size_of,
    state_in,
)
from drumlin.coordination.shards.pending_answer import Written
from drumlin.coordination.share.state.coordinator import ShareCoordinator
from drumlin.coordination.share.state.state import SharePartitionKey, ShareState
from drumlin.metadata.image import NO_LEADER
from drumlin.metadata.names import SHARE_GROUP_STATE
from drumlin.peer.peer_error import PeerError
from drumlin.together import Together
from drumlin.wire.error_codes import ErrorCode, KafkaError

_log = logging.getLogger(__name__)

#: Entries in a request: partitions, and batches of their states.
_SIZE_MAX: Final = 1000
#: Errors after which the call is repeated, maybe to another broker.
_TRANSIENT: Final = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    }
)
_FIRST_PAUSE_S: Final = 0.05
_LAST_PAUSE_S: Final = 1.0


class _Lane(NamedTuple):
    """A kind of calls that may share a request."""

    node_id: int
    api_name: str
    group_id: str


class ShareStateRoutes:
    """See the module; methods are those of `ShareCoordinator`.

    They raise the same `KafkaError`s. COORDINATOR_NOT_AVAILABLE and similar errors are raised only
    after `patience_s`: about as long as in Apache Kafka, and usually enough for another broker to
    take over.
    """

    def __init__(
        self, broker: Coordinators, here: ShareCoordinator, patience_s: float = 15.0
    ) -> None:
        self._broker = broker
        self._here = here
        self._patience_s = patience_s
        self._calls = Together(self._send, lambda it: it.key, size_of, _SIZE_MAX, not_asked)
        self._is_stopping = False

    def finish(self) -> None:
        """Stop repeating calls, as the broker is stopping."""
        self._is_stopping = True

    async def close(self) -> None:
        await self._calls.close()

    # -- requests ------------------------------------------------------------------------------

    async def initialize(
        self, group_id: str, topic_id: UUID, partition: int, state_epoch: int, start_offset: int
    ) -> None:
        """Like `ShareCoordinator.initialize`; the topic is created if it does not exist."""
        key = SharePartitionKey(group_id, topic_id, partition)
        await self._ask(
            Initialize(key, state_epoch, start_offset),
            partial(self._here.initialize, *key, state_epoch, start_offset),
        )

    async def read(
        self, group_id: str, topic_id: UUID, partition: int, leader_epoch: int
    ) -> ShareState:
        """Like `ShareCoordinator.read`."""
        key = SharePartitionKey(group_id, topic_id, partition)
        here = partial(self._here.read, *key, leader_epoch)
        state: ShareState = await self._ask(Read(key, leader_epoch), here)
        return state

    async def write(self, group_id: str, topic_id: UUID, partition: int, state: ShareState) -> None:
        """Like `ShareCoordinator.write`."""
        key = SharePartitionKey(group_id, topic_id, partition)
        await self._ask(Write(key, state), partial(self._here.write, *key, state))

    def write_at_once(self, key: SharePartitionKey, change: ShareState) -> Written[None] | None:
        """Like `ShareCoordinator.write_at_once`; also None if another broker is the coordinator."""
        is_here = self._coordinator(key) in (None, self._broker.node_id)
        return self._here.write_at_once(key, change) if is_here else None

    async def delete(self, group_id: str, topic_id: UUID, partition: int) -> None:
        """Like `ShareCoordinator.delete`."""
        key = SharePartitionKey(group_id, topic_id, partition)
        await self._ask(Delete(key), partial(self._here.delete, *key))

    async def summary(self, group_id: str, topic_id: UUID, partition: int) -> ShareState:
        """Like `ShareCoordinator.summary`."""
        key = SharePartitionKey(group_id, topic_id, partition)
        state: ShareState = await self._ask(Summarize(key), partial(self._here.summary, *key))
        return state

    # -- calls -------------------------------------------------------------------------------

    def _coordinator(self, key: SharePartitionKey) -> int | None:
        image = self._broker.metadata.image
        return coordinator_of(image, SHARE_GROUP_STATE, key.coordinator_key)

    async def _ask(self, call: Call, here: Callable[[], Awaitable[Any]]) -> Any:
        """Make a call; returns the state in the answer, if any."""
        loop = asyncio.get_running_loop()
        gives_up_at, pause_s = loop.time() + self._patience_s, _FIRST_PAUSE_S
        while True:
            try:
                return await self._ask_once(call, here)
            except KafkaError as error:
                is_over = self._is_stopping or loop.time() >= gives_up_at
                if error.code not in _TRANSIENT or is_over:
                    raise
                _log.debug("%s of %s: %s, again", api_of(call), call.key, error)
            await asyncio.sleep(pause_s * random.uniform(0.8, 1.2))
            pause_s = min(2 * pause_s, _LAST_PAUSE_S)

    async def _ask_once(self, call: Call, here: Callable[[], Awaitable[Any]]) -> Any:
        node_id = self._coordinator(call.key)
        if node_id is None and isinstance(call, Initialize):
            await self._here.find_partition(call.key.coordinator_key)
            node_id = self._coordinator(call.key)
        if node_id in (
            None,
            self._broker.node_id,
        ):  # without a topic, any broker can answer
            return await here()
        if node_id == NO_LEADER:
            raise KafkaError(ErrorCode.coordinator_not_available)
        lane = _Lane(node_id, api_of(call), call.key.group_id)
        try:
            answer = await self._calls.ask(lane, call)
        except PeerError as error:
            raise KafkaError(ErrorCode.coordinator_not_available, str(error)) from error
        return await state_in(answer)

    async def _send(self, lane: _Lane, calls: Sequence[Call]) -> list[Any]:
        try:
            response = await self._broker.peers.ask(
                lane.node_id, "share state", lane.api_name, request(calls)
            )
            return answers(calls, response)
        except KafkaError as error:  # the broker does not exist any more
            raise KafkaError(ErrorCode.coordinator_not_available, error.message) from error
