"""A consumer's OffsetCommit and OffsetFetch, and a check of its membership; no retries."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from drumlin.client.admin.committed_offsets import (
    NAMES_UP_TO,
    GroupMetadata,
    OffsetAndMetadata,
    commit_request,
    fetch_request,
    fetched_offsets,
    refused_commits,
)
from drumlin.client.consumer.coordinator_link import CoordinatorLink
from drumlin.client.consumer.options import GroupProtocol
from drumlin.client.topic_partition import TopicPartition
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.protocol.heartbeat import HeartbeatRequest


async def commit_offsets(
    link: CoordinatorLink,
    who: GroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
) -> None:
    """Commit offsets.

    Raises:
        KafkaError: one of the partitions was refused.
        PeerError: not answered; the offsets may be committed or not.
    """
    request = commit_request(who, offsets)
    response = await link.request("offset_commit", request, version_max=NAMES_UP_TO)
    for (topic, partition), code in refused_commits(response):
        link.check("offset_commit", code, f"offset_commit of topic {topic!r} partition {partition}")


async def fetch_offsets(
    link: CoordinatorLink, who: GroupMetadata, places: Collection[TopicPartition]
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Committed offsets of `places`; partitions without one are left out.

    While a transaction with offsets of these partitions is open, this fails with a retriable error.

    Raises:
        KafkaError: the request was refused.
        PeerError: no answer.
    """
    request = fetch_request(who, places, require_stable=True)
    response = await link.request("offset_fetch", request, version_max=NAMES_UP_TO)
    return fetched_offsets(response, who.group_id, link.check)


async def confirm_membership(
    link: CoordinatorLink,
    protocol: GroupProtocol,
    who: GroupMetadata,
    places: Collection[TopicPartition],
) -> None:
    """Check that the coordinator would accept a commit of this member.

    A rebalance in progress is not a failure: it revokes nothing before the member has rejoined.

    Raises:
        KafkaError: the group has moved on.
        PeerError: no answer.
    """
    if protocol == "consumer":
        # Since version 9 brokers check the member epoch of an OffsetFetch as they do in a commit.
        response = await link.request(
            "offset_fetch", fetch_request(who, places), version_max=NAMES_UP_TO
        )
        fetched_offsets(response, who.group_id, link.check)
        return
    request = HeartbeatRequest(
        group_id=who.group_id,
        generation_id=who.generation_id,
        member_id=who.member_id,
        group_instance_id=who.group_instance_id,
    )
    answer = await link.request("heartbeat", request)
    if answer.error_code is not ErrorCode.rebalance_in_progress:
        link.check("heartbeat", answer.error_code, f"heartbeat in group {who.group_id!r}")
