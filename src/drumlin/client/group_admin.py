"""Groups as an administrator sees them: which there are, who is in them, what they have committed.

Everything here is asked from outside, without being a member. A broker takes offsets from
outside only while a group has no members. Errors that may pass are tried again. Loads no Arrow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from drumlin.client.group_members import Member, classic_members, consumer_members
from drumlin.client.offsets import TopicPartition
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.connection import RequestBuilder
from drumlin.wire.errors import ErrorCode, KafkaError
from drumlin.wire.messages import Shape

T = TypeVar("T")

_GROUP_KEY: Final = 0
_NAMES_UP_TO: Final = 9  # later versions of both requests name topics by id
_NO_GENERATION: Final = -1
#: A partition's errors that may pass, and have nothing to do with the partition.
_OF_COORDINATOR: Final = frozenset(
    {
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.request_timed_out,
    }
)


class GroupListing(NamedTuple):
    """A group as its coordinator lists it."""

    group: str
    state: str | None  # None where the broker is too old to tell, as with `type`
    type: str | None
    protocol: str
    coordinator: int


class Committed(NamedTuple):
    """One committed position: where reading goes on."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group and its members; a group that does not exist is "Dead"."""

    group: str
    state: str
    type: str  # "classic", "consumer" or, without its members, "share" and the like
    members: tuple[Member, ...]

    @property
    def is_at_rest(self) -> bool:
        """Whether offsets may be committed from outside."""
        return self.state in ("Empty", "Dead")


async def ask_coordinator(
    connections: BrokerConnections,
    group: str,
    api_name: str,
    build: RequestBuilder,
    read: Callable[[Any], T],
    *,
    version_max: int | None = None,
) -> T:
    """Ask the coordinator of a group. `read` takes the answer, or raises the error in it."""

    async def attempt() -> T:
        node_id = await _find_coordinator(connections, group)
        connection = await connections.broker(node_id)
        return read(await connection.request(api_name, build, version_max=version_max))

    return await connections.retrying(attempt)


async def _find_coordinator(connections: BrokerConnections, group: str) -> int:
    def build(shape: Shape) -> object:
        return shape(
            "FindCoordinatorRequest", key=group, key_type=_GROUP_KEY, coordinator_keys=(group,)
        )

    connection = await connections.any()
    response = await connection.request("find_coordinator", build)
    found = response.coordinators[0] if hasattr(response, "coordinators") else response
    _check(found.error_code, f"coordinator of group {group!r}")
    return int(found.node_id)


# -- groups ------------------------------------------------------------------------------------


async def list_groups(connections: BrokerConnections) -> list[GroupListing]:
    """The groups of every broker, by name."""

    async def attempt() -> list[GroupListing]:
        await connections.refresh(())
        found: list[GroupListing] = []
        for node_id in sorted(connections.view.brokers):
            connection = await connections.broker(node_id)
            response = await connection.request("list_groups", _list_request)
            _check(response.error_code, f"groups of broker {node_id}")
            found += [
                GroupListing(
                    each.group_id,
                    getattr(each, "group_state", None),
                    getattr(each, "group_type", None),
                    each.protocol_type,
                    node_id,
                )
                for each in response.groups
            ]
        return sorted(found, key=lambda each: each.group)

    return await connections.retrying(attempt)


def _list_request(shape: Shape) -> object:
    return shape("ListGroupsRequest")


async def describe_group(connections: BrokerConnections, group: str) -> GroupDescription:
    """State and members, by the classic protocol and, failing that, by KIP-848's."""

    def classic(shape: Shape) -> object:
        return shape("DescribeGroupsRequest", groups=(group,), include_authorized_operations=False)

    def consumer(shape: Shape) -> object:
        return shape(
            "ConsumerGroupDescribeRequest", group_ids=(group,), include_authorized_operations=False
        )

    def first(response: Any) -> Any:
        found = response.groups[0]
        if found.error_code is not ErrorCode.group_id_not_found:
            _check(found.error_code, f"group {group!r}", getattr(found, "error_message", None))
        return found

    found = await ask_coordinator(connections, group, "describe_groups", classic, first)
    if found.error_code is ErrorCode.none and found.group_state != "Dead":
        members = tuple(classic_members(found.members))
        return GroupDescription(group, found.group_state, "classic", members)
    listed = {each.group: each for each in await list_groups(connections)}.get(group)
    if listed is None:
        return GroupDescription(group, "Dead", "classic", ())
    kind = str(listed.type or "classic").lower()
    if kind != "consumer":
        return GroupDescription(group, listed.state or "Unknown", kind, ())
    found = await ask_coordinator(connections, group, "consumer_group_describe", consumer, first)
    if found.error_code is ErrorCode.group_id_not_found:
        return GroupDescription(group, "Dead", "classic", ())
    return GroupDescription(group, found.group_state, kind, tuple(consumer_members(found.members)))


async def delete_group(connections: BrokerConnections, group: str) -> None:
    """Delete a group, which must have no members, with its offsets."""

    def build(shape: Shape) -> object:
        return shape("DeleteGroupsRequest", groups_names=(group,))

    def read(response: Any) -> None:
        _check(response.results[0].error_code, f"group {group!r}")

    await ask_coordinator(connections, group, "delete_groups", build, read)


# -- offsets -----------------------------------------------------------------------------------


async def fetch_committed(
    connections: BrokerConnections, group: str
) -> dict[TopicPartition, Committed]:
    """Every offset that the group has committed."""

    def build(shape: Shape) -> object:
        if shape.has("OffsetFetchRequestGroup"):
            wanted = shape("OffsetFetchRequestGroup", group_id=group, topics=None)
            return shape("OffsetFetchRequest", groups=(wanted,))
        return shape("OffsetFetchRequest", group_id=group, topics=None)

    def read(response: Any) -> dict[TopicPartition, Committed]:
        answer = response.groups[0] if hasattr(response, "groups") else response
        _check(answer.error_code, f"offsets of group {group!r}")
        return {
            (topic.name, part.partition_index): Committed(
                part.committed_offset,
                getattr(part, "committed_leader_epoch", -1),
                part.metadata or "",
            )
            for topic in answer.topics
            for part in topic.partitions
            if part.committed_offset >= 0
        }

    return await ask_coordinator(
        connections, group, "offset_fetch", build, read, version_max=_NAMES_UP_TO
    )


async def commit(
    connections: BrokerConnections, group: str, positions: Mapping[TopicPartition, Committed]
) -> dict[TopicPartition, ErrorCode]:
    """Commit from outside; gives the partitions that were refused, and why.

    A group with members refuses all of them with UNKNOWN_MEMBER_ID.
    """
    if not positions:
        return {}

    def build(shape: Shape) -> object:
        return shape(
            "OffsetCommitRequest",
            group_id=group,
            generation_id_or_member_epoch=_NO_GENERATION,
            member_id="",
            topics=tuple(_commit_topics(shape, positions)),
        )

    def read(response: Any) -> dict[TopicPartition, ErrorCode]:
        refused: dict[TopicPartition, ErrorCode] = {}
        for topic in response.topics:
            for part in topic.partitions:
                if part.error_code is not ErrorCode.none:
                    refused[topic.name, part.partition_index] = ErrorCode(part.error_code)
        check_coordinator(group, refused)
        return refused

    return await ask_coordinator(
        connections, group, "offset_commit", build, read, version_max=_NAMES_UP_TO
    )


def check_coordinator(group: str, refused: Mapping[TopicPartition, ErrorCode]) -> None:
    """
    Raises:
        KafkaError: it was the coordinator's own trouble: ask another one, or later.
    """
    for code in refused.values():
        if code in _OF_COORDINATOR:
            raise KafkaError(code, f"offsets of group {group!r}")


def _commit_topics(shape: Shape, positions: Mapping[TopicPartition, Committed]) -> Iterable[object]:
    by_topic: dict[str, list[object]] = defaultdict(list)
    for (topic, partition), position in positions.items():
        by_topic[topic].append(
            shape(
                "OffsetCommitRequestPartition",
                partition_index=partition,
                committed_offset=position.offset,
                committed_leader_epoch=position.leader_epoch,
                committed_metadata=position.metadata,
            )
        )
    for topic, parts in by_topic.items():
        yield shape("OffsetCommitRequestTopic", name=topic, partitions=tuple(parts))


async def delete_offsets(
    connections: BrokerConnections, group: str, topic: str, partitions: Iterable[int]
) -> None:
    """Forget what was committed for these partitions.

    Raises:
        KafkaError: the first refusal; GROUP_SUBSCRIBED_TO_TOPIC while members read the topic.
    """

    def build(shape: Shape) -> object:
        parts = (shape("OffsetDeleteRequestPartition", partition_index=p) for p in partitions)
        named = shape("OffsetDeleteRequestTopic", name=topic, partitions=tuple(parts))
        return shape("OffsetDeleteRequest", group_id=group, topics=(named,))

    def read(response: Any) -> None:
        _check(response.error_code, f"group {group!r}")
        for answer in response.topics[0].partitions:
            _check(answer.error_code, f"group {group!r}, {topic}-{answer.partition_index}")

    await ask_coordinator(connections, group, "offset_delete", build, read)


def _check(code: ErrorCode | int, what: str, message: str | None = None) -> None:
    if code != ErrorCode.none:
        raise KafkaError(ErrorCode(code), f"{what}: {message}" if message else what)
