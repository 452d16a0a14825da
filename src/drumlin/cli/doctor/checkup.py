"""All checks, in the order in which their findings are told."""

from __future__ import annotations

from collections.abc import Iterator

from drumlin.cli.doctor.checks import (
    cleaning,
    clocks,
    configuration,
    directories,
    disks,
    groups,
    listeners,
    machine,
    partitions,
    transactions,
)
from drumlin.cli.doctor.facts import ClusterFacts, Configuration, Facts
from drumlin.cli.doctor.finding import Finding, Severity


def checkup(facts: Facts) -> list[Finding]:
    """Every finding, the worst first."""
    found = [*_unusable(facts), *_of_machine(facts), *_of_cluster(facts), *_unknown(facts)]
    return sorted(dict.fromkeys(found), key=lambda each: -each.severity)


def _of_machine(facts: Facts) -> Iterator[Finding]:
    host = facts.machine
    if host is not None:
        yield from machine.descriptors(host)
        yield from machine.memory_maps(host)
        yield from directories.file_system(host)
        yield from directories.fleeting(host)
        yield from directories.mount_options(host)
        yield from directories.writable(host)
        yield from directories.room(host)
        yield from clocks.synchronized(host)
    own = (facts.configuration,) if facts.configuration else ()
    yield from machine.ephemeral_ports(host, own)
    yield from machine.ports(facts.ports)
    yield from clocks.jump(facts.clocks)
    yield from configuration.without_effect(own)
    yield from configuration.unclean_election(own, {})
    yield from listeners.protection(own)
    yield from listeners.certificate_ends(facts.certificates, listeners.today(facts.now_ms))
    if facts.cleaner is not None:
        yield from cleaning.uncleanable(facts.cleaner)
        yield from cleaning.overdue(facts.cleaner)
        yield from cleaning.disabled(facts.cleaner)


def _of_cluster(facts: Facts) -> Iterator[Finding]:
    cluster = facts.cluster
    if cluster is None:
        return
    yield from partitions.brokers(cluster)
    yield from partitions.at_risk(cluster)
    yield from partitions.durability(cluster)
    yield from partitions.preferred_leaders(cluster)
    yield from configuration.without_effect(cluster.brokers)
    yield from configuration.unclean_election(cluster.brokers, cluster.topic_configs)
    yield from configuration.replication_factors(cluster)
    yield from _of_addresses(facts, cluster, cluster.brokers)
    yield from clocks.skew(cluster.clocks)
    yield from clocks.future_records(cluster.newest, facts.now_ms)
    yield from disks.offline(cluster.disks)
    yield from disks.full(cluster.disks)
    yield from groups.below_start(cluster.groups)
    yield from groups.beyond_end(cluster.groups)
    yield from groups.stuck(cluster.groups)
    yield from groups.behind(cluster.groups)
    yield from transactions.hanging(cluster)
    yield from transactions.late(cluster)


def _of_addresses(
    facts: Facts, cluster: ClusterFacts, brokers: tuple[Configuration, ...]
) -> Iterator[Finding]:
    addresses = cluster.addresses
    yield from listeners.resolves(addresses)
    yield from listeners.reachable(addresses)
    yield from listeners.loopback(addresses, brokers)
    yield from listeners.certificate_covers(addresses)
    known = [each.certificate for each in addresses if each.certificate]
    yield from listeners.certificate_ends(known, listeners.today(facts.now_ms))
    yield from listeners.protection(brokers)


def _unusable(facts: Facts) -> Iterator[Finding]:
    if facts.invalid_configuration is not None:
        yield Finding(
            Severity.ERROR,
            "configuration",
            "the configuration",
            facts.invalid_configuration,
            "a broker does not start with it",
            "docs/configuration.md has the keys and their values",
        )
    if facts.unreachable is not None:
        yield Finding(
            Severity.ERROR,
            "unreachable",
            "the cluster",
            facts.unreachable,
            "nothing can be said about the cluster, and its clients may be as far off",
            "start a broker, or say where: --bootstrap, --config or --profile",
        )


def _unknown(facts: Facts) -> Iterator[Finding]:
    for what, reason in facts.unknown:
        yield Finding(
            Severity.NOTE,
            "not-looked-at",
            what,
            f"could not be looked at: {reason}",
            "nothing is said about it here, good or bad",
            "run the doctor with a user who may, or where it can be reached",
        )
