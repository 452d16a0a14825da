"""Checks of configuration: keys without effect, and settings by which records are lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from drumlin.cli.doctor.facts import ClusterFacts, Configuration
from drumlin.cli.doctor.finding import Finding, Severity, some_of
from drumlin.cli.terminal.output import counted

_UNCLEAN: Final = "unclean.leader.election.enable"
_FACTORS: Final = {
    "default.replication.factor": "topics cannot be created without a number of replicas",
    "offsets.topic.replication.factor": "no group can commit until there are enough brokers",
    "transaction.state.log.replication.factor": "no transaction can begin until there are enough",
}


def without_effect(configurations: tuple[Configuration, ...]) -> Iterator[Finding]:
    """Whether keys are set that do nothing here."""
    for each in configurations:
        if each.without_effect:
            yield Finding(
                Severity.NOTE,
                "key-without-effect",
                each.where,
                f"without effect: {', '.join(each.without_effect)}",
                "Apache Kafka knows these keys, in this version or another, but nothing depends on "
                "them there",
                "remove them; docs/configuration.md lists the keys that have an effect",
            )


def unclean_election(
    configurations: tuple[Configuration, ...], topics: Mapping[str, Mapping[str, str]]
) -> Iterator[Finding]:
    """Whether a replica that is not in sync may become leader."""
    why = "acknowledged records are lost when the in-sync replicas fail and another one leads"
    on = [each.where for each in configurations if each.is_true(_UNCLEAN)]
    if on:
        yield Finding(
            Severity.WARNING,
            "unclean-election",
            some_of(on),
            f"{_UNCLEAN} is true for all topics",
            why,
            f"drumlin configs alter broker ID --set {_UNCLEAN}=false",
        )
    names = [name for name, config in topics.items() if config.get(_UNCLEAN) == "true"]
    if names and not on:
        yield Finding(
            Severity.WARNING,
            "unclean-election",
            some_of(sorted(names)),
            f"{_UNCLEAN} is true for {counted(len(names), 'topic')}",
            why,
            f"drumlin configs alter topic {min(names)} --delete {_UNCLEAN}",
        )


def replication_factors(cluster: ClusterFacts) -> Iterator[Finding]:
    """Whether brokers are to make topics with more replicas than there are brokers."""
    for key, why in _FACTORS.items():
        values = {each.values.get(key, "") for each in cluster.brokers} - {""}
        factor = max((int(each) for each in values if each.isdecimal()), default=0)
        if factor > len(cluster.live) > 0 and not _exists(cluster, key):
            yield Finding(
                Severity.WARNING,
                "replication-above-brokers",
                key,
                f"{key} is {factor}, and there are {len(cluster.live)} brokers",
                why,
                f"start more brokers, or set {key}={len(cluster.live)}",
            )


def _exists(cluster: ClusterFacts, key: str) -> bool:
    """Whether the internal topic that a key is for has been made already."""
    name = {"offsets": "__consumer_offsets", "transaction": "__transaction_state"}.get(
        key.partition(".")[0]
    )
    return name is not None and any(each.topic == name for each in cluster.partitions)
