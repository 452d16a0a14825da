"""A consumer's OffsetCommit and OffsetFetch, each sent once."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from drumlin.client.committed_offsets import (
    NAMES_UP_TO,
    GroupMetadata,
    OffsetAndMetadata,
    commit_request,
    fetch_request,
    fetched_offsets,
    refused_commits,
)
from drumlin.client.consumer.coordinator_link import CoordinatorLink
from drumlin.client.offsets import TopicPartition


async def commit_offsets(
    link: CoordinatorLink,
    who: GroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
) -> None:
    """
    Raises:
        KafkaError: one of the partitions was refused.
        PeerError: not answered; it may have been committed.
    """
    build = commit_request(who, offsets)
    response = await link.request("offset_commit", build, version_max=NAMES_UP_TO)
    for (topic, partition), code in refused_commits(response):
        link.check(code, f"offset_commit of topic {topic!r} partition {partition}")


async def fetch_offsets(
    link: CoordinatorLink, who: GroupMetadata, places: Collection[TopicPartition]
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Committed offsets of `places`; partitions without one are left out.

    While a transaction may commit offsets, it fails with a retriable error.

    Raises:
        KafkaError: refused.
        PeerError: not answered.
    """
    build = fetch_request(who, places, require_stable=True)
    response = await link.request("offset_fetch", build, version_max=NAMES_UP_TO)
    return fetched_offsets(response, who.group_id, link.check)
