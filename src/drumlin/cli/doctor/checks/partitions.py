"""Checks of partitions: what is down, and what goes down with the next broker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from drumlin.cli.doctor.facts import ClusterFacts, Partition
from drumlin.cli.doctor.finding import Finding, Severity, some_of
from drumlin.cli.terminal.output import counted

_MIN_ISR: Final = "min.insync.replicas"
#: Without preferred leaders a cluster works; a share of them is not worth a word.
_ELSEWHERE_RATIO: Final = 0.2


def brokers(cluster: ClusterFacts) -> Iterator[Finding]:
    """Whether brokers that have replicas are there, and a controller."""
    dead = sorted({node for each in cluster.partitions for node in each.replicas} - cluster.live)
    for node in dead:
        count = sum(node in each.replicas for each in cluster.partitions)
        yield Finding(
            Severity.ERROR,
            "broker-dead",
            f"broker {node}",
            f"it has replicas of {count} partitions, and is not registered",
            "these partitions have fewer copies; the next failure may stop them",
            "start it; its log says why it ended",
        )
    if not cluster.partitions:
        yield Finding(
            Severity.NOTE,
            "no-topics",
            "the cluster",
            "no topic is visible",
            "there is none, or the user may describe none; nothing is said about topics then",
            "drumlin acls check --operation describe --topic T --user U, if there should be some",
        )
    if cluster.live and cluster.controller not in cluster.live:
        yield Finding(
            Severity.ERROR,
            "no-controller",
            "the cluster",
            "there is no controller",
            "no leader is elected, and no topic is created or changed",
            "look at the logs of the controllers (or of ZooKeeper)",
        )


def at_risk(cluster: ClusterFacts) -> Iterator[Finding]:
    """Whether partitions lack a leader or replicas; each is told once, with its worst trouble."""
    offline, below, at, under = [], [], [], []
    for each in cluster.partitions:
        least = min_isr(cluster, each.topic)
        if each.leader not in cluster.live:
            offline.append(each)
        elif least is not None and len(each.isr) < min(least, len(each.replicas)):
            below.append(each)
        elif least is not None and len(each.isr) == least < len(each.replicas):
            at.append(each)
        elif len(each.isr) < len(each.replicas):
            under.append(each)
    yield from _told(
        offline,
        Severity.ERROR,
        "offline",
        "without a leader",
        "they can neither be read nor written",
        "start the brokers that have their replicas: drumlin cluster status names them",
    )
    yield from _told(
        below,
        Severity.ERROR,
        "below-min-isr",
        f"with fewer replicas in sync than {_MIN_ISR}",
        "producers with acks=all are refused: NOT_ENOUGH_REPLICAS",
        "bring the missing brokers back: drumlin cluster status names them",
    )
    yield from _told(
        at,
        Severity.WARNING,
        "at-min-isr",
        f"with as few replicas in sync as {_MIN_ISR} allows",
        "one more failure, and producers with acks=all are refused",
        "bring the missing brokers back: drumlin cluster status names them",
    )
    yield from _told(
        under,
        Severity.WARNING,
        "under-replicated",
        "with replicas that are not in sync",
        "fewer copies than were asked for; if it lasts, a follower is too slow or stopped",
        "drumlin cluster status --watch, and the logs of the brokers that are missing in isr",
    )


def durability(cluster: ClusterFacts) -> Iterator[Finding]:
    """Whether one failure can lose records, or stop producers, by configuration."""
    own = [each for each in cluster.partitions if not each.is_internal and each.index == 0]
    single = [each.topic for each in own if len(each.replicas) == 1]
    if single:
        yield Finding(
            Severity.WARNING if len(cluster.live) > 1 else Severity.NOTE,
            "single-replica",
            some_of(sorted(single)),
            f"{counted(len(single), 'topic')} with a single replica",
            "what its disk loses is lost; unless flush.messages=1, so are the last seconds when "
            "the power fails",
            "more replicas (kafka-reassign-partitions), or drumlin configs alter topic "
            f"{min(single)} --set flush.messages=1",
        )
    alone = [e for e in own if len(e.replicas) > 1 and min_isr(cluster, e.topic) == 1]
    if alone:
        name = min(each.topic for each in alone)
        yield Finding(
            Severity.WARNING,
            "min-isr-one",
            some_of(sorted(each.topic for each in alone)),
            f"{counted(len(alone), 'topic')} with several replicas, and {_MIN_ISR}=1",
            "acks=all is answered with a single copy while the others are away; if that one's disk "
            "fails, acknowledged records are lost",
            f"drumlin configs alter topic {name} --set {_MIN_ISR}=2",
        )
    rigid = [
        each
        for each in own
        if (least := min_isr(cluster, each.topic)) is not None
        and len(each.replicas) > 1
        and least >= len(each.replicas)
    ]
    if rigid:
        first = min(rigid, key=lambda each: each.topic)
        least = max(1, len(first.replicas) - 1)
        yield Finding(
            Severity.WARNING,
            "min-isr-all",
            some_of(sorted(each.topic for each in rigid)),
            f"{_MIN_ISR} is not less than the replicas of {counted(len(rigid), 'topic')}",
            "any one broker that stops, even for an upgrade, stops producers with acks=all",
            f"drumlin configs alter topic {first.topic} --set {_MIN_ISR}={least}",
        )


def preferred_leaders(cluster: ClusterFacts) -> Iterator[Finding]:
    """Whether many partitions are led by another replica than their first."""
    led = [each for each in cluster.partitions if each.leader in cluster.live]
    elsewhere = [e for e in led if e.leader != e.replicas[0] and e.replicas[0] in e.isr]
    if elsewhere and len(elsewhere) > _ELSEWHERE_RATIO * len(led):
        yield Finding(
            Severity.NOTE,
            "leaders-elsewhere",
            "the cluster",
            f"{len(elsewhere)} of {len(led)} partitions are led by another than their preferred "
            "replica, which is in sync",
            "the load is not spread as it was planned",
            "kafka-leader-election --election-type preferred --all-topic-partitions; brokers do "
            "so themselves with auto.leader.rebalance.enable=true",
        )


def min_isr(cluster: ClusterFacts, topic: str) -> int | None:
    """`min.insync.replicas` of a topic; None if it is not known."""
    text = cluster.topic_configs.get(topic, {}).get(_MIN_ISR, "")
    return int(text) if text.isdecimal() else None


def _told(
    partitions: Iterable[Partition],
    severity: Severity,
    check: str,
    what: str,
    why: str,
    remedy: str,
) -> Iterator[Finding]:
    names = [each.name for each in partitions]
    if names:
        count = "1 partition is" if len(names) == 1 else f"{len(names)} partitions are"
        yield Finding(severity, check, some_of(names), f"{count} {what}", why, remedy)
