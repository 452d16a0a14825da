"""Requests to share coordinators, and the results in their responses. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

from drumlin.coordination.share.state.state import (
    NO_EPOCH,
    UNKNOWN_COUNT,
    SharePartitionKey,
    ShareState,
    StateBatch,
)
from drumlin.peer.peer_error import InvalidResponse
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.protocol import delete_share_group_state as delete
from drumlin.wire.protocol import initialize_share_group_state as initialize
from drumlin.wire.protocol import read_share_group_state as read
from drumlin.wire.protocol import read_share_group_state_summary as summarize
from drumlin.wire.protocol import write_share_group_state as write
from drumlin.wire.schema.declaration import Message

#: Batches that are converted between two chances to give way.
_AT_ONCE: Final = 100


class Call(Protocol):
    """A call about one share partition."""

    @property
    def key(self) -> SharePartitionKey: ...

    def part(self) -> object:
        """The partition's entry in a request."""


class Initialize(NamedTuple):
    key: SharePartitionKey
    state_epoch: int
    start_offset: int

    def part(self) -> object:
        return initialize.PartitionData(
            partition=self.key.partition,
            state_epoch=self.state_epoch,
            start_offset=self.start_offset,
        )


class Read(NamedTuple):
    key: SharePartitionKey
    leader_epoch: int

    def part(self) -> object:
        return read.PartitionData(partition=self.key.partition, leader_epoch=self.leader_epoch)


class Summarize(NamedTuple):
    key: SharePartitionKey

    def part(self) -> object:
        return summarize.PartitionData(partition=self.key.partition, leader_epoch=NO_EPOCH)


class Delete(NamedTuple):
    key: SharePartitionKey

    def part(self) -> object:
        return delete.PartitionData(partition=self.key.partition)


class Write(NamedTuple):
    key: SharePartitionKey
    state: ShareState

    def part(self) -> object:
        state = self.state
        return write.PartitionData(
            partition=self.key.partition,
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
            state_batches=tuple([write.StateBatch(**each._asdict()) for each in state.batches]),
        )


class _Messages(NamedTuple):
    """An API, and the classes of its requests."""

    api: str
    request: Callable[..., Message]
    topic: Callable[..., object]


_MESSAGES: Final[dict[type, _Messages]] = {
    Initialize: _Messages(
        "initialize_share_group_state",
        initialize.InitializeShareGroupStateRequest,
        initialize.InitializeStateData,
    ),
    Read: _Messages("read_share_group_state", read.ReadShareGroupStateRequest, read.ReadStateData),
    Write: _Messages(
        "write_share_group_state", write.WriteShareGroupStateRequest, write.WriteStateData
    ),
    Delete: _Messages(
        "delete_share_group_state", delete.DeleteShareGroupStateRequest, delete.DeleteStateData
    ),
    Summarize: _Messages(
        "read_share_group_state_summary",
        summarize.ReadShareGroupStateSummaryRequest,
        summarize.ReadStateSummaryData,
    ),
}


def size_of(call: Call) -> int:
    """The number of entries that the call takes in a request."""
    return 1 + len(call.state.batches) if isinstance(call, Write) else 1


def api_of(call: Call) -> str:
    return _MESSAGES[type(call)].api


def request(calls: Sequence[Call]) -> Message:
    """One request for calls of the same kind about the same group."""
    by_topic: dict[UUID, list[object]] = {}
    for each in calls:
        by_topic.setdefault(each.key.topic_id, []).append(each.part())
    kind = _MESSAGES[type(calls[0])]
    topics = [
        kind.topic(topic_id=topic_id, partitions=tuple(parts))
        for topic_id, parts in by_topic.items()
    ]
    return kind.request(group_id=calls[0].key.group_id, topics=tuple(topics))


def answers(calls: Iterable[Call], response: Any) -> list[Any]:
    """The results of the calls in a response.

    Raises:
        InvalidResponse: a result is missing.
    """
    told = {
        (topic.topic_id, each.partition): each
        for topic in response.results
        for each in topic.partitions
    }
    try:
        return [told[each.key.topic_id, each.key.partition] for each in calls]
    except KeyError as error:
        raise InvalidResponse(f"no answer about a share partition: {error}") from error


async def state_in(answer: Any) -> ShareState:
    """The state in a result, as far as the API returns it.

    Raises:
        KafkaError: the result has an error code.
    """
    if answer.error_code is not ErrorCode.none:
        raise KafkaError(answer.error_code, answer.error_message or "")
    batches: list[StateBatch] = []
    told = getattr(answer, "state_batches", ())
    for first in range(0, len(told), _AT_ONCE):
        batches += map(_batch, told[first : first + _AT_ONCE])
        await give_way()
    return ShareState(
        getattr(answer, "state_epoch", 0),
        getattr(answer, "leader_epoch", NO_EPOCH),
        getattr(answer, "start_offset", 0),
        getattr(answer, "delivery_complete_count", UNKNOWN_COUNT),
        tuple(batches),
    )


def _batch(each: Any) -> StateBatch:
    return StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
