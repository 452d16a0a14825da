"""The authority in a folder, and the certificates of brokers that it has issued.

The folder belongs to a server, or to a cluster, whose brokers have folders below it.
"""

from __future__ import annotations

import logging
import secrets
import socket
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from drumlin.config.config_error import ConfigError
from drumlin.securing.authority import (
    Authority,
    UnusableCertificate,
    can_be_in_a_certificate,
    read_certificate,
)
from drumlin.securing.client_files import CA
from drumlin.securing.machine_hosts import hosts_of_machine
from drumlin.securing.private_files import write_private

_log = logging.getLogger(__name__)

#: Key and certificate of the authority. A start does not need it while the brokers' certificates
#: are valid.
AUTHORITY: Final = "authority.pem"
#: Key and certificate of a broker.
BROKER: Final = "broker.pem"
_OF_A_CLUSTER: Final = f"broker-*/{BROKER}"


def certify(folder: Path, brokers: Mapping[Path, Sequence[str]]) -> None:
    """Make the authority and the brokers' certificates; replace certificates past half of their
    life, or without a host. `brokers`: the advertised hosts, by the file of the certificate.

    Raises:
        ConfigError: a file cannot be used, or there is no authority to issue a certificate.
        OSError: the files cannot be read or written.
    """
    if not (folder / AUTHORITY).exists() and not any(each.exists() for each in brokers):
        write_private(folder / AUTHORITY, new_authority().pem())
    authority = read_authority(folder)
    if authority is not None and not (folder / CA).exists():
        write_private(folder / CA, authority.certificate_pem())
    for path, hosts in brokers.items():
        why = _why_renew(path, authority, hosts)
        if why is None:
            continue
        if authority is None:
            allowed = f"{why}, and there is no {AUTHORITY} to make another by"
            raise ConfigError(str(path), None, allowed)
        issue_broker(path, authority, hosts)
        if why != "is missing":
            _log.warning("%s %s: it was renewed", path, why)


def new_authority() -> Authority:
    """A new authority with a unique name."""
    return Authority.make(f"Drumlin {socket.gethostname()[:40]} {secrets.token_hex(4)}")


def read_authority(folder: Path, name: str = AUTHORITY) -> Authority | None:
    """The authority in a folder; None if there is none, for example as it is kept elsewhere.

    Raises:
        ConfigError: the file cannot be used.
    """
    path = folder / name
    try:
        return Authority.of_pem(path.read_text(errors="replace"))
    except FileNotFoundError:
        return None
    except UnusableCertificate as error:
        raise ConfigError(str(path), None, str(error)) from None


def issue_broker(path: Path, authority: Authority, hosts: Iterable[str]) -> None:
    """Write a broker's certificate, for these hosts and all names of the machine."""
    wanted = dict.fromkeys([*hosts, *hosts_of_machine()])
    named = [each for each in wanted if can_be_in_a_certificate(each)]
    write_private(path, authority.issue("drumlin", named))


def brokers_in(folder: Path) -> list[Path]:
    """The files of the brokers' certificates: one for a server, several for a cluster."""
    own = folder / BROKER
    return [own] if own.exists() else sorted(folder.glob(_OF_A_CLUSTER))


def _why_renew(path: Path, authority: Authority | None, hosts: Sequence[str]) -> str | None:
    try:
        pem = path.read_text(errors="replace")
    except FileNotFoundError:
        return "is missing"
    try:
        if authority is not None and not authority.has_issued(pem):
            return None  # the operator has replaced it
        issued = read_certificate(pem)
    except UnusableCertificate as error:
        raise ConfigError(str(path), None, str(error)) from None
    now = datetime.now(UTC)
    if now > issued.ends:
        return f"has ended on {issued.ends:%Y-%m-%d}"
    if authority is None:
        return None
    if issued.is_in_second_half(now):
        return f"would have ended on {issued.ends:%Y-%m-%d}"
    missing = [each for each in hosts if not issued.covers([each])]
    return f"has not named {', '.join(missing)}" if missing else None
