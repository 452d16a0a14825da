"""Administration of groups: listing, describing and deleting them, and their committed offsets.

The client is not a member. A broker accepts offsets from non-members only while the group is empty.
Transient errors are retried. Loads no Arrow.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from drumlin.client.admin.committed_offsets import (
    NAMES_UP_TO,
    GroupMetadata,
    OffsetAndMetadata,
    commit_request,
    fetch_request,
    fetched_offsets,
    refused_commits,
)
from drumlin.client.admin.coordinators import (
    LOST_COORDINATOR,
    coordinator_connection,
    known_coordinator,
)
from drumlin.client.admin.group_members import Member, classic_members, consumer_members
from drumlin.client.errors import CommitFailed, translated
from drumlin.client.read.offsets import by_topic
from drumlin.client.topic_partition import TopicPartition
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.connection import Request
from drumlin.peer.peer_error import only
from drumlin.peer.rights import refusal
from drumlin.wire.error_codes import ErrorCode, KafkaError, error_of
from drumlin.wire.protocol.consumer_group_describe import ConsumerGroupDescribeRequest
from drumlin.wire.protocol.delete_groups import DeleteGroupsRequest
from drumlin.wire.protocol.describe_groups import DescribeGroupsRequest
from drumlin.wire.protocol.leave_group import LeaveGroupRequest, MemberIdentity
from drumlin.wire.protocol.list_groups import ListGroupsRequest
from drumlin.wire.protocol.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

T = TypeVar("T")

#: All states of groups in Kafka, including streams groups (KIP-1071).
STATES: Final = (
    *("Empty", "Stable", "Dead", "PreparingRebalance", "CompletingRebalance"),
    *("Assigning", "Reconciling", "NotReady", "Unknown"),
)
TYPES: Final = ("classic", "consumer", "share", "streams")

_SEVERAL_FROM: Final = 3  # the version of LeaveGroup
_REMOVED: Final = "removed by an administrator"

#: Transient errors of a partition that concern the coordinator, not the partition.
_OF_COORDINATOR: Final = LOST_COORDINATOR | {ErrorCode.coordinator_load_in_progress}


class GroupListing(NamedTuple):
    """A group as its coordinator lists it."""

    group: str
    state: str | None  # None if the broker's version does not return it, like `type`
    type: str | None
    protocol: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group and its members; a group that does not exist is "Dead"."""

    group: str
    state: str
    type: str  # "classic", "consumer" or, without its members, "share" and the like
    members: tuple[Member, ...]

    @property
    def is_at_rest(self) -> bool:
        """Whether offsets may be committed without being a member."""
        return self.state in ("Empty", "Dead")


async def ask_coordinator(
    connections: BrokerConnections,
    group: str,
    api_name: str,
    request: Request,
    read: Callable[[Any], T],
    *,
    version_max: int | None = None,
) -> T:
    """Send a request to a group's coordinator. `read` parses the response, or raises its error."""

    async def attempt() -> T:
        node_id = await known_coordinator(connections, group)
        connection = await coordinator_connection(connections, node_id)
        return read(await connection.request(api_name, request, version_max=version_max))

    return await connections.retrying(attempt)


# -- groups ------------------------------------------------------------------------------------


async def list_groups(
    connections: BrokerConnections,
    states: Collection[str] = (),
    types: Collection[str] = (),
) -> list[GroupListing]:
    """The groups of all brokers, sorted by name, optionally filtered by state and type."""

    async def of_broker(node_id: int) -> list[GroupListing]:
        connection = await connections.broker(node_id)
        response = await connection.request("list_groups", ListGroupsRequest())
        _check("list_groups", response.error_code, f"groups of broker {node_id}")
        return [
            GroupListing(
                each.group_id,
                each.group_state or None,
                each.group_type or None,
                each.protocol_type,
                node_id,
            )
            for each in response.groups
        ]

    async def attempt() -> list[GroupListing]:
        await connections.refresh(())
        found = await asyncio.gather(*map(of_broker, connections.view.brokers))
        return sorted(itertools.chain(*found), key=lambda each: each.group)

    listed = await connections.retrying(attempt)
    return [
        each for each in listed if _is_among(each.state, states) and _is_among(each.type, types)
    ]


def _is_among(value: str | None, wanted: Collection[str]) -> bool:
    """Whether `wanted` is empty or has the value, ignoring case."""
    return not wanted or (value or "").lower() in {each.lower() for each in wanted}


async def describe_group(connections: BrokerConnections, group: str) -> GroupDescription:
    """State and members of a classic group, or of one with KIP-848's protocol."""
    classic = DescribeGroupsRequest(groups=(group,), include_authorized_operations=False)
    consumer = ConsumerGroupDescribeRequest(group_ids=(group,), include_authorized_operations=False)

    def first(response: Any) -> Any:
        found = only(response.groups, f"group {group!r}")
        if found.error_code is not ErrorCode.group_id_not_found:
            _check(
                "describe_groups",
                found.error_code,
                f"group {group!r}",
                getattr(found, "error_message", None),
            )
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
    request = DeleteGroupsRequest(groups_names=(group,))

    def read(response: Any) -> None:
        what = f"group {group!r}"
        _check("delete_groups", only(response.results, what).error_code, what)

    await ask_coordinator(connections, group, "delete_groups", request, read)


async def remove_members(
    connections: BrokerConnections,
    group: str,
    members: Collection[tuple[str, str | None]],
) -> None:
    """Have members leave, each given by its member id or, if it is static, by its instance id.

    Raises:
        KafkaError: the first refusal; the others have left.
    """
    leaving = tuple(
        MemberIdentity(member_id=member_id, group_instance_id=instance_id, reason=_REMOVED)
        for member_id, instance_id in members
    )

    def request(version: int) -> LeaveGroupRequest:
        if version < _SEVERAL_FROM:
            why = "brokers before Apache Kafka 2.4 remove no members"
            raise KafkaError(ErrorCode.unsupported_version, why)
        return LeaveGroupRequest(group_id=group, members=leaving)

    def read(response: Any) -> None:
        _check("leave_group", response.error_code, f"group {group!r}")
        for each in response.members:
            name = each.group_instance_id or each.member_id
            _check("leave_group", each.error_code, f"group {group!r}, member {name!r}")

    if leaving:
        await ask_coordinator(connections, group, "leave_group", request, read)


# -- offsets -----------------------------------------------------------------------------------


async def fetch_committed(
    connections: BrokerConnections, group: str, *, require_stable: bool = False
) -> dict[TopicPartition, OffsetAndMetadata]:
    """All committed offsets of the group; see `Client.committed_offsets`."""

    def read(response: Any) -> dict[TopicPartition, OffsetAndMetadata]:
        return fetched_offsets(response, group, _check)

    request = fetch_request(GroupMetadata(group), require_stable=require_stable)
    return await ask_coordinator(
        connections, group, "offset_fetch", request, read, version_max=NAMES_UP_TO
    )


async def commit(
    connections: BrokerConnections,
    group: str,
    positions: Mapping[TopicPartition, OffsetAndMetadata],
) -> dict[TopicPartition, ErrorCode]:
    """Commit without being a member; returns the refused partitions with their errors.

    A group with members refuses all offsets with UNKNOWN_MEMBER_ID.
    """
    if not positions:
        return {}

    def read(response: Any) -> dict[TopicPartition, ErrorCode]:
        refused = dict(refused_commits(response))
        check_coordinator(group, refused)
        return refused

    request = commit_request(GroupMetadata(group), positions)
    return await ask_coordinator(
        connections, group, "offset_commit", request, read, version_max=NAMES_UP_TO
    )


async def commit_all(
    connections: BrokerConnections,
    group: str,
    positions: Mapping[TopicPartition, OffsetAndMetadata],
) -> None:
    """Commit offsets without being a member.

    Raises:
        CommitFailed: some offsets were refused; the others are committed.
    """
    with translated():
        refused = await commit(connections, group, positions)
    raise_refused(group, refused)


def raise_refused(group: str, refused: Mapping[TopicPartition, ErrorCode]) -> None:
    """Check that no offset was refused.

    Raises:
        CommitFailed: one was; the others are committed.
    """
    for (topic, partition), code in sorted(refused.items()):
        where = f"group {group!r}, topic {topic!r} partition {partition}"
        raise CommitFailed(f"{where}: {code.name}", code)


def check_coordinator(group: str, refused: Mapping[TopicPartition, ErrorCode]) -> None:
    """Check that no error concerns the coordinator.

    Raises:
        KafkaError: one of them does; the request must be retried.
    """
    for code in refused.values():
        if code in _OF_COORDINATOR:
            raise KafkaError(code, f"offsets of group {group!r}")


async def delete_offsets(
    connections: BrokerConnections, group: str, places: Collection[TopicPartition]
) -> None:
    """Delete the committed offsets of these partitions.

    Raises:
        KafkaError: the first refusal; GROUP_SUBSCRIBED_TO_TOPIC while members read the topic.
    """
    topics = (
        OffsetDeleteRequestTopic(
            name=topic,
            partitions=tuple(
                OffsetDeleteRequestPartition(partition_index=each) for each in partitions
            ),
        )
        for topic, partitions in by_topic(places).items()
    )
    request = OffsetDeleteRequest(group_id=group, topics=tuple(topics))

    def read(response: Any) -> None:
        _check("offset_delete", response.error_code, f"group {group!r}")
        for topic in response.topics:
            for each in topic.partitions:
                _check(
                    "offset_delete",
                    each.error_code,
                    f"group {group!r}, {topic.name}-{each.partition_index}",
                )

    await ask_coordinator(connections, group, "offset_delete", request, read)


def _check(api_name: str, code: ErrorCode | int, what: str, message: str | None = None) -> None:
    if code != ErrorCode.none:
        raise refusal(api_name, error_of(code), f"{what}: {message}" if message else what)
