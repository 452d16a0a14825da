"""Replaces an authority with a new one in three steps. Clients and brokers get the new files
between the steps, so that they never see a certificate that they do not trust.

1. `trust`: a new authority is made, and trusted in addition to the present one.
2. `issue`: it replaces the present one, and issues new certificates for the brokers.
3. `drop`: the old one is no longer trusted.

A step that was interrupted can be repeated.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from drumlin.config.machine_folders import FOLDER
from drumlin.securing.authority import read_certificate, read_pem, split_certificates, was_issued_by
from drumlin.securing.client_files import CA, PROPERTIES, read_connection, with_address
from drumlin.securing.issuing import (
    AUTHORITY,
    brokers_in,
    issue_broker,
    new_authority,
    read_authority,
)
from drumlin.securing.private_files import write_private

#: Key and certificate of the authority that will replace the present one.
NEXT: Final = "authority-next.pem"


_ANSWER_TIMEOUT_S: Final = 5.0


class RotationRefused(Exception):
    """A step cannot be taken now; the message says why."""


def trust(folder: Path) -> list[str]:
    """Make a new authority, and trust it as well; returns the changed files.

    Raises:
        RotationRefused: an earlier rotation is not complete, or another authority has issued the
            certificates.
        ConfigError, OSError: a file cannot be used.
    """
    trusted = split_certificates(read_pem(folder / CA))
    _check_brokers(folder, trusted)
    made = read_authority(folder, NEXT)
    if made is None:
        if len(trusted) > 1:
            raise RotationRefused(f"{folder / CA} has {len(trusted)} authorities: 'drop' first")
        made = new_authority()
        write_private(folder / NEXT, made.pem())
    return _trust(folder, list(dict.fromkeys([*trusted, made.certificate_pem()])))


def issue(folder: Path) -> list[str]:
    """Replace the brokers' certificates with ones of the new authority, and delete the old
    authority's key; returns the changed files.

    Raises:
        RotationRefused: the new authority is not trusted yet.
        ConfigError, OSError: a file cannot be used.
    """
    trusted = split_certificates(read_pem(folder / CA))
    made = read_authority(folder, NEXT)
    if made is None:
        why = "'drop' is next" if len(trusted) > 1 else "'trust' makes it"
        raise RotationRefused(f"there is no {folder / NEXT}: {why}")
    known = read_connection(folder)
    told = {CA: "".join(trusted)} | ({} if known is None else {PROPERTIES: known.ca})
    for name, ca in told.items():
        if made.certificate_pem() not in ca:
            why = "does not have the other authority: 'trust' first"
            raise RotationRefused(f"{folder / name} {why}")
    brokers = _check_brokers(folder, trusted)
    for each in brokers:
        issue_broker(each, made, read_certificate(read_pem(each)).hosts)
    write_private(folder / AUTHORITY, made.pem())
    (folder / NEXT).unlink()
    return [*(str(each.relative_to(folder)) for each in brokers), AUTHORITY]


def drop(folder: Path) -> list[str]:
    """Stop trusting the old authority; returns the changed files.

    Raises:
        RotationRefused: a broker still uses a certificate of the old authority.
        ConfigError, OSError: a file cannot be used.
    """
    if (folder / NEXT).exists():
        raise RotationRefused(f"{folder / NEXT} has issued nothing: 'issue' first")
    trusted = split_certificates(read_pem(folder / CA))
    shown = [read_pem(each) for each in _check_brokers(folder, trusted)]
    needed = [ca for ca in trusted if any(was_issued_by(each, [ca]) for each in shown)]
    known = read_connection(folder)
    is_cut_short = known is not None and known.ca != "".join(trusted)
    if len(trusted) == 1 and not is_cut_short:
        raise RotationRefused(f"{folder / CA} has one authority: there is no former one")
    if len(needed) > 1:
        raise RotationRefused(f"brokers show certificates of {len(needed)} authorities")
    for address in [] if known is None else _addresses(folder, known.bootstrap):
        pem = _shown_at(address)
        if pem is not None and not was_issued_by(pem, needed):
            why = "shows no certificate of the other authority yet: try again in some seconds"
            raise RotationRefused(f"{address} {why}")
    return _trust(folder, needed)


def _check_brokers(folder: Path, trusted: Sequence[str]) -> list[Path]:
    """The files of the brokers' certificates.

    Raises:
        RotationRefused: there are none, or clients do not trust the issuer of one.
    """
    brokers = brokers_in(folder)
    if not brokers:
        raise RotationRefused(f"{folder} has no certificate of a broker")
    for each in brokers:
        if not was_issued_by(read_pem(each), trusted):
            raise RotationRefused(f"{each} is of no authority in {folder / CA}")
    return brokers


def _addresses(folder: Path, bootstrap: str) -> Iterator[str]:
    """Those of all brokers: on one machine they have the ports that follow the first one's."""
    others = len([*(folder / FOLDER).glob("*")])
    for each in bootstrap.split(","):
        host, _, port = each.rpartition(":")
        for index in range(others + 1):
            yield f"{host}:{int(port) + index}"


def _shown_at(address: str) -> str | None:
    """The certificate that a running broker presents; None if it does not run."""
    host, _, port = address.rpartition(":")
    try:
        return ssl.get_server_certificate((host.strip("[]"), int(port)), timeout=_ANSWER_TIMEOUT_S)
    except (OSError, ValueError):
        return None


def _trust(folder: Path, authorities: Sequence[str]) -> list[str]:
    ca = "".join(authorities)
    write_private(folder / CA, ca)
    known = read_connection(folder)
    if known is None:
        return [CA]
    return [CA, *with_address(known, known.bootstrap, ca).write(folder)]
