"""The health of a cluster as any admin client sees it: live brokers, and what is wrong.

Sends requests and judges; prints nothing. A broker's response may be slightly out of date.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from drumlin.cli.reach.cluster import DESCRIBE_CLUSTER, REQUEST_TIMEOUT, Cluster, check
from drumlin.cli.reach.eligible_replicas import Eligible, as_row, ask_eligible
from drumlin.peer.cluster_view import PartitionView, TopicView
from drumlin.peer.connection import Address
from drumlin.peer.peer_error import ConnectionLost, RequestTimeout, UnsupportedByBroker
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.protocol.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from drumlin.wire.protocol.list_partition_reassignments import ListPartitionReassignmentsRequest

_TOPIC_RESOURCE: Final = 2
_MIN_ISR: Final = "min.insync.replicas"
#: The number of topics per request.
_TOPICS_ASKED: Final = 500


@dataclass(frozen=True, slots=True)
class LiveBroker:
    """A registered broker and its address for clients."""

    address: str
    rack: str | None


@dataclass(frozen=True, slots=True)
class Found:
    """The responses of a cluster. `reassignments` is None if no broker reports any."""

    cluster_id: str | None
    controller: int
    brokers: Mapping[int, LiveBroker]
    topics: Mapping[str, TopicView]
    min_isr: Mapping[str, int]
    reassignments: list[dict[str, Any]] | None
    eligible: Eligible | None = None


def ask_all(cluster: Cluster) -> Found:
    """Ask a cluster for everything that `judge` needs.

    Raises:
        KafkaError: the cluster refuses to answer.
        PeerError: the cluster does not answer.
    """
    described = cluster.ask_any("describe_cluster", DESCRIBE_CLUSTER)
    check(described.error_code, "cluster", described.error_message)
    cluster.run(cluster.connections.look_up(None))
    views = cluster.connections.view.topics.values()
    # Only some partitions are listed: those of the user's own topics first.
    topics = {each.name: each for each in sorted(views, key=lambda t: (t.is_internal, t.name))}
    return Found(
        described.cluster_id,
        described.controller_id,
        {
            each.broker_id: LiveBroker(str(Address(each.host, each.port)), each.rack)
            for each in described.brokers
        },
        topics,
        _min_isr(cluster, topics),
        _reassignments(cluster),
        # A partition with all replicas in sync has no eligible and no last known replicas.
        ask_eligible(
            cluster,
            {
                topic.name
                for topic in topics.values()
                for each in topic.partitions.values()
                if len(each.isr) < len(each.replicas)
            },
        ),
    )


def judge(found: Found, known: Mapping[int, str]) -> dict[str, Any]:
    """The verdict, as JSON shows it. `known` are the addresses of brokers that should be alive."""
    partitions = [
        (topic.name, each) for topic in found.topics.values() for each in topic.partitions.values()
    ]
    problems = {
        "offline": [pair for pair in partitions if pair[1].leader not in found.brokers],
        "under_min_isr": [
            (topic, each)
            for topic, each in partitions
            if topic in found.min_isr and len(each.isr) < found.min_isr[topic]
        ],
        "under_replicated": [
            pair for pair in partitions if len(pair[1].isr) < len(pair[1].replicas)
        ],
    }
    brokers = list(_broker_rows(found, known, (each for _, each in partitions)))
    has_controller = found.controller in found.brokers
    is_whole = has_controller and all(each["is_alive"] for each in brokers)
    return {
        "cluster_id": found.cluster_id,
        "controller": found.controller if has_controller else None,
        "is_healthy": is_whole and not any(problems.values()),
        "topics": len(found.topics),
        "partitions": len(partitions),
        "brokers": brokers,
        **{kind: [_row(*pair, found) for pair in those] for kind, those in problems.items()},
        "reassignments": found.reassignments,
    }


def _broker_rows(
    found: Found, known: Mapping[int, str], partitions: Iterable[PartitionView]
) -> Iterator[dict[str, Any]]:
    leaders, replicas, in_sync = Counter[int](), Counter[int](), Counter[int]()
    for each in partitions:
        leaders[each.leader] += 1
        replicas.update(each.replicas)
        in_sync.update(each.isr)
    for number in sorted({*found.brokers, *known, *replicas}):
        live = found.brokers.get(number)
        yield {
            "broker": number,
            "address": live.address if live else known.get(number),
            "rack": live.rack if live else None,
            "is_alive": live is not None,
            "is_controller": live is not None and number == found.controller,
            "leaders": leaders[number],
            "replicas": replicas[number],
            "in_sync": in_sync[number],
        }


def _row(topic: str, partition: PartitionView, found: Found) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": partition.index,
        "leader": partition.leader,
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
        "min_isr": found.min_isr.get(topic),
        **as_row(found.eligible, topic, partition.index),
    }


# -- asking --------------------------------------------------------------------------------------


def _min_isr(cluster: Cluster, topics: Iterable[str]) -> dict[str, int]:
    """`min.insync.replicas` by topic, without topics whose configuration the user may not see."""
    found: dict[str, int] = {}
    names = iter(topics)
    while asked := list(itertools.islice(names, _TOPICS_ASKED)):
        resources = (
            DescribeConfigsResource(
                resource_type=_TOPIC_RESOURCE,
                resource_name=name,
                configuration_keys=(_MIN_ISR,),
            )
            for name in asked
        )
        request = DescribeConfigsRequest(resources=tuple(resources))
        for result in cluster.ask_any("describe_configs", request).results:
            for entry in result.configs if result.error_code is ErrorCode.none else ():
                if entry.name == _MIN_ISR and str(entry.value).isdecimal():
                    found[result.resource_name] = int(entry.value)
    return found


def _reassignments(cluster: Cluster) -> list[dict[str, Any]] | None:
    """Partitions whose replicas are being moved; None if brokers do not serve the request."""
    request = ListPartitionReassignmentsRequest(topics=None, timeout=REQUEST_TIMEOUT)

    async def ask() -> Any:
        connection = await cluster.connections.controller()
        return await connection.request("list_partition_reassignments", request)

    try:
        answer = cluster.run(ask())
        check(answer.error_code, "reassignments", answer.error_message)
    except (UnsupportedByBroker, ConnectionLost, RequestTimeout):
        return None  # not served, or the controller was killed a moment ago
    except KafkaError as error:
        if error.code is not ErrorCode.cluster_authorization_failed:
            raise
        return None
    return [
        {
            "topic": topic.name,
            "partition": each.partition_index,
            "replicas": list(each.replicas),
            "adding": list(each.adding_replicas),
            "removing": list(each.removing_replicas),
        }
        for topic in answer.topics
        for each in topic.partitions
    ]
