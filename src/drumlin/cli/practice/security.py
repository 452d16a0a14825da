"""The security of a practice cluster: created before its processes start, and kept from then on."""

from __future__ import annotations

from pathlib import Path

from drumlin.cli.practice.brokers import Configuration
from drumlin.cli.practice.record import ClusterRecord, MemberRecord
from drumlin.cli.terminal.output import Failure
from drumlin.config.config_error import ConfigError
from drumlin.securing.secured_cluster import PlacedBroker, SecuredCluster, is_secured


def security_of(
    directory: Path, record: ClusterRecord, configuration: Configuration, *, is_asked_for: bool
) -> SecuredCluster | None:
    """The security of a cluster; None if the cluster is not secured, and is not to be.

    Raises:
        Failure: it cannot be secured.
    """
    if not is_asked_for and not is_secured(directory):
        return None
    brokers = [placed(directory, each) for each in record.brokers]
    try:
        return SecuredCluster.prepare(directory, brokers, configuration.settings)
    except ConfigError as error:
        raise Failure(str(error)) from None
    except OSError as error:
        raise Failure(f"{error.filename}: {error.strerror or error}") from None


def placed(directory: Path, broker: MemberRecord) -> PlacedBroker:
    """The data directory and the address of a broker."""
    return PlacedBroker(directory / f"broker-{broker.name}", broker.address)
