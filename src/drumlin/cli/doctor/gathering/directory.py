"""Facts about a data directory, and from the broker that runs on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from drumlin.cli.doctor.facts import BrokerClock, Certificate, Configuration
from drumlin.cli.reach.broker_http import BrokerHttp
from drumlin.cli.terminal.output import Failure
from drumlin.cli.topics.compaction import status_of_files
from drumlin.config.broker import BrokerConfig
from drumlin.config.machine_folders import FOLDER
from drumlin.metadata.embedded.database import FILE_NAME
from drumlin.securing.authority import UnusableCertificate, read_certificate, split_certificates
from drumlin.securing.client_files import CA
from drumlin.securing.issuing import brokers_in

_EVERYWHERE: Final = "PLAINTEXT://:9092"
_KEY_STORE: Final = "ssl.keystore.location"
_TRUST_STORE: Final = "ssl.truststore.location"


def configuration_of(
    path: Path, properties: Mapping[str, str]
) -> tuple[Configuration, BrokerConfig]:
    """A file of properties as a broker would take it.

    Raises:
        ConfigError: a broker would not start with it.
    """
    config = BrokerConfig.load(properties)
    values = {"listeners": _EVERYWHERE} | dict(properties)
    values["listener.security.protocol.map"] = ",".join(
        f"{name}:{protocol}" for name, protocol in config.listener_security_protocol_map.items()
    )
    return Configuration(str(path), values, without_effect=config.without_effect), config


def log_dirs_below(data: Path) -> list[Path]:
    """The log dirs in a data directory: its own, and those of a server's further brokers."""
    return [data, *sorted((data / FOLDER).glob("[0-9]*"))]


def certificates_in(data: Path | None, properties: Mapping[str, str]) -> tuple[Certificate, ...]:
    """The certificates of a secured server, and those that a configuration names."""
    files = [] if data is None else [data / CA, *brokers_in(data)]
    files += [Path(properties[key]) for key in (_KEY_STORE, _TRUST_STORE) if properties.get(key)]
    return tuple(each for path in dict.fromkeys(files) for each in _certificates(path))


def _certificates(path: Path) -> Iterator[Certificate]:
    try:
        pems = split_certificates(path.read_text())
    except (OSError, ValueError):
        return  # not PEM, or not there: a broker says so when it starts
    for pem in pems:
        try:
            found = read_certificate(pem)
        except UnusableCertificate:
            continue
        yield Certificate(str(path), found.name, found.hosts, found.begins, found.ends)


def cleaner_report(data: Path | None, broker: BrokerHttp | None) -> Mapping[str, Any] | None:
    """What a broker says about its compacted logs; without one, what the files say.

    Raises:
        Failure: the broker does not answer, or the files cannot be read.
    """
    if broker is not None:
        report: Mapping[str, Any] = broker.get("/compaction")
        return report
    if data is None or not (data / FILE_NAME).exists():
        return None  # an Apache Kafka's directory has no word on this
    try:
        return status_of_files(data, None)
    except (OSError, ValueError) as error:
        raise Failure(f"{data}: {error}") from error


def clocks_of(broker: BrokerHttp) -> tuple[BrokerClock, ...]:
    """The clocks of a server's brokers, by their own account.

    Raises:
        Failure: the broker does not answer.
    """
    return tuple(
        BrokerClock(
            f"broker {row['broker']}" if "broker" in row else "this broker",
            0,
            0,
            row["ahead_ms"] if row["is_doubted"] else 0,
        )
        for row in broker.get("/clock")["results"]
    )
