"""The configuration of a practice cluster's brokers: Kafka's defaults where they fit. No I/O.

Kafka's own default for internal topics is three replicas; with fewer brokers, it is their number.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from drumlin.cli.terminal.output import Failure
from drumlin.config.config_error import ConfigError
from drumlin.config.sources import read_assignments

_EXIT_USAGE: Final = 2
_REPLICAS: Final = 3
_MIN_ISR: Final = 2
#: Long enough for a busy machine, short enough to watch a failover.
_SESSION_TIMEOUT_MS: Final = 6000
#: The keys that `up` sets itself: without them there would be no cluster.
_OURS: Final = frozenset(
    {
        *("node.id", "broker.id", "log.dir", "log.dirs", "zookeeper.connect"),
        *("listeners", "advertised.listeners", "port", "host.name"),
        *("advertised.host.name", "advertised.port", "process.roles", "metadata.log.dir"),
    }
)


@dataclass(frozen=True, slots=True)
class Configuration:
    """The settings of an `up` for all brokers, and the racks that the brokers take in turn."""

    settings: Mapping[str, str] = field(default_factory=dict)
    racks: Sequence[str] = ()

    @classmethod
    def read(cls, assignments: Iterable[str], racks: str | None) -> Configuration:
        """Parse the command line's values.

        Raises:
            Failure: a setting is not KEY=VALUE, or must differ between brokers; a rack is empty.
        """
        try:
            settings = read_assignments(assignments)
        except ConfigError as error:
            raise Failure(f"--set {error}", _EXIT_USAGE) from None
        for key in sorted(_OURS & settings.keys()):
            why = "'drumlin cluster up' decides it for each broker"
            raise Failure(f"--set {key}: {why}", _EXIT_USAGE)
        names = [] if racks is None else [each.strip() for each in racks.split(",")]
        if not all(names):
            raise Failure(f"--racks {racks!r} is no list of racks, as a,b,c", _EXIT_USAGE)
        return cls(settings, names)

    def of_broker(self, broker: int, count: int) -> dict[str, str]:
        """The settings of one of `count` brokers."""
        rack = {"broker.rack": self.racks[(broker - 1) % len(self.racks)]} if self.racks else {}
        return {**defaults(count), **rack, **self.settings}


def defaults(count: int) -> dict[str, str]:
    """The settings that a cluster of `count` brokers needs."""
    replicas, min_isr = str(min(count, _REPLICAS)), str(min(count, _MIN_ISR))
    return {
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": min_isr,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": min_isr,
        "zookeeper.session.timeout.ms": str(_SESSION_TIMEOUT_MS),
    }


def broker_command(
    broker: int, data: Path, zookeeper: str, settings: Mapping[str, str], file: Path | None
) -> list[str]:
    """The command line of one broker, as a user could type it. `file`: further settings."""
    own = {**settings, "node.id": str(broker), "zookeeper.connect": zookeeper}
    command = [sys.executable, "-m", "drumlin", "server", *([str(file)] if file else [])]
    command += ["--data", str(data)]
    for key, value in own.items():
        command += ["--set", f"{key}={value}"]
    return command
