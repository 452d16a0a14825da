"""Checks of the machine: limits, ports, memory of its processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from drumlin.cli.doctor.facts import Configuration, Machine, Port
from drumlin.cli.doctor.finding import Finding, Severity, some_of
from drumlin.config.config_error import ConfigError
from drumlin.config.listeners import parse_listeners

#: Connections and files of a broker that is hardly used.
_DESCRIPTORS_MIN: Final = 10_000
#: A log has a segment and its indexes open while it is used.
_DESCRIPTORS_OF_A_LOG: Final = 4
#: The kernel's default, which Apache Kafka's memory-mapped indexes exceed at 30,000 segments.
_MAPS_OF_A_LOG: Final = 2


def descriptors(machine: Machine) -> Iterator[Finding]:
    """Whether the limit of open files suffices for connections and logs."""
    most = machine.descriptors_max
    wanted = max(_DESCRIPTORS_MIN, _DESCRIPTORS_OF_A_LOG * machine.partitions)
    if most is not None and most < wanted:
        of = f"the broker (process {machine.broker_pid})" if machine.broker_pid else "a broker here"
        yield Finding(
            Severity.WARNING,
            "descriptors",
            "this machine",
            f"{of} may open {most:,} files; {wanted:,} are advisable"
            + (f" with {machine.partitions:,} partitions" if machine.partitions else ""),
            "connections are refused, and files are opened and closed all the time",
            f"LimitNOFILE={max(100_000, wanted)} in its systemd unit, or `ulimit -Hn` in its shell",
        )


def memory_maps(machine: Machine) -> Iterator[Finding]:
    """Whether the limit of memory maps suffices for an Apache Kafka on these logs."""
    most, wanted = machine.memory_maps_max, _MAPS_OF_A_LOG * machine.partitions * 2
    if most is not None and most < wanted:
        yield Finding(
            Severity.NOTE,
            "memory-maps",
            "this machine",
            f"vm.max_map_count is {most:,}, with {machine.partitions:,} partitions",
            "Drumlin maps no indexes, but an Apache Kafka on these logs maps two files a segment, "
            "and ends with `Map failed`",
            "sysctl -w vm.max_map_count=262144",
        )


def ephemeral_ports(
    machine: Machine | None, configurations: tuple[Configuration, ...]
) -> Iterator[Finding]:
    """Whether a listener has a port that the kernel also gives to outgoing connections."""
    for configuration in configurations if machine else ():
        try:
            entries = [
                each.strip() for each in configuration.values.get("listeners", "").split(",")
            ]
            found = parse_listeners("listeners", tuple(filter(None, entries)))
        except ConfigError:
            continue  # the broker does not start with this, and says why
        taken = [each.address for each in found if machine and each.port in machine.ephemeral_ports]
        if taken and machine:
            ports = machine.ephemeral_ports
            yield Finding(
                Severity.NOTE,
                "ephemeral-port",
                configuration.where,
                f"{some_of(taken)} is among the ports of outgoing connections, "
                f"{ports.start} to {ports.stop - 1}",
                "while another program's connection has that port, the broker cannot start",
                "another port, or sysctl -w net.ipv4.ip_local_reserved_ports="
                + ",".join(each.rpartition(":")[2] for each in taken),
            )


def ports(found: tuple[Port, ...]) -> Iterator[Finding]:
    """Whether a broker that is not running could listen where it is configured to."""
    for each in found:
        yield Finding(
            Severity.ERROR,
            "port",
            each.address,
            f"a broker cannot listen on {each.address}: {each.error}",
            "it does not start",
            f"ss -ltnp 'sport = :{each.address.rpartition(':')[2]}' shows who has the port; "
            "otherwise change listeners",
        )
