"""Facts about the configuration of topics and brokers, as brokers tell it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, Final

from drumlin.cli.doctor.facts import Configuration
from drumlin.cli.reach.cluster import Cluster, check
from drumlin.config.keys import broker_keys
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.protocol.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

_TOPIC, _BROKER = 2, 4
_TOPICS_ASKED: Final = 500
#: Where a value comes from: a broker's file.
_STATIC: Final = 4
_KEYS: Final = (
    *("min.insync.replicas", "unclean.leader.election.enable"),
    *("cleanup.policy", "retention.ms", "retention.bytes"),
)


def configs_of_topics(cluster: Cluster, topics: Iterable[str]) -> dict[str, dict[str, str]]:
    """What the checks need to know of topics; those that may not be described are left out."""
    found: dict[str, dict[str, str]] = {}
    names = iter(topics)
    while asked := list(itertools.islice(names, _TOPICS_ASKED)):
        resources = tuple(
            DescribeConfigsResource(
                resource_type=_TOPIC, resource_name=each, configuration_keys=_KEYS
            )
            for each in asked
        )
        answer = cluster.ask_any("describe_configs", DescribeConfigsRequest(resources=resources))
        for result in answer.results:
            if result.error_code is ErrorCode.none:
                found[result.resource_name] = {
                    entry.name: entry.value for entry in result.configs if entry.value is not None
                }
    return found


def configuration_of_broker(cluster: Cluster, node_id: int) -> Configuration:
    """A broker's configuration.

    Raises:
        KafkaError, PeerError: refused, or not answered.
    """
    resource = DescribeConfigsResource(
        resource_type=_BROKER, resource_name=str(node_id), configuration_keys=None
    )
    request = DescribeConfigsRequest(resources=(resource,), include_documentation=True)
    (result,) = cluster.ask_broker(node_id, "describe_configs", request).results
    check(result.error_code, f"configuration of broker {node_id}", result.error_message)
    # Apache Kafka documents each of its keys; before 2.6 it tells no documentation at all.
    is_documented = any(entry.documentation for entry in result.configs)
    return Configuration(
        f"broker {node_id}",
        {entry.name: entry.value for entry in result.configs if entry.value is not None},
        node_id,
        tuple(sorted(each.name for each in result.configs if is_documented and _is_idle(each))),
    )


def _is_idle(entry: Any) -> bool:
    """Whether a broker leaves a key undocumented that Kafka knows: it has no effect there."""
    key = broker_keys().get(entry.name)
    is_known = key is not None and key.origin == "kafka-4"
    return is_known and entry.config_source == _STATIC and not entry.documentation
