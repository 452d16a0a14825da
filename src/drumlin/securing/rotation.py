"""An authority exchanged for another, in three steps: clients and brokers take what is new between
them, and at no time meet a certificate that they do not trust.

1. `trust`: another authority is made, and trusted beside the present one.
2. `issue`: it takes the place of the present one, and brokers get certificates of it.
3. `drop`: the former one is trusted no more.

A step that was cut short is done again.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from drumlin.config.machine_folders import FOLDER
from drumlin.securing.authority import read_certificate, split_certificates, was_issued_by
from drumlin.securing.client_files import CA, PROPERTIES, read_connection, with_address
from drumlin.securing.issuing import (
    AUTHORITY,
    brokers_in,
    issue_broker,
    new_authority,
    read_authority,
)
from drumlin.securing.private_files import write_private

#: Key and certificate of the authority that is to take the place of the present one.
NEXT: Final = "authority-next.pem"


_ANSWER_TIMEOUT_S: Final = 5.0


class RotationRefused(Exception):
    """A step is not the next one; the message says why."""


def trust(folder: Path) -> list[str]:
    """Make another authority, and trust it as well; returns the files that have changed.

    Raises:
        RotationRefused: an earlier exchange has not come to its end, or the certificates are of
            somebody else.
        ConfigError, OSError: a file cannot be used.
    """
    trusted = split_certificates((folder / CA).read_text())
    _check_brokers(folder, trusted)
    made = read_authority(folder, NEXT)
    if made is None:
        if len(trusted) > 1:
            raise RotationRefused(f"{folder / CA} has {len(trusted)} authorities: 'drop' first")
        made = new_authority()
        write_private(folder / NEXT, made.pem())
    return _trust(folder, list(dict.fromkeys([*trusted, made.certificate_pem()])))


def issue(folder: Path) -> list[str]:
    """Have brokers show certificates of the other authority, which is the only one from then on;
    returns the files that have changed.

    Raises:
        RotationRefused: the other authority is not trusted yet.
        ConfigError, OSError: a file cannot be used.
    """
    made = read_authority(folder, NEXT)
    if made is None:
        raise RotationRefused(f"there is no {folder / NEXT}: 'trust' makes it")
    trusted = split_certificates((folder / CA).read_text())
    known = read_connection(folder)
    told = {CA: "".join(trusted)} | ({} if known is None else {PROPERTIES: known.ca})
    for name, ca in told.items():
        if made.certificate_pem() not in ca:
            why = "does not have the other authority: 'trust' first"
            raise RotationRefused(f"{folder / name} {why}")
    brokers = _check_brokers(folder, trusted)
    for each in brokers:
        issue_broker(each, made, read_certificate(each.read_text()).hosts)
    write_private(folder / AUTHORITY, made.pem())
    (folder / NEXT).unlink()
    return [*(str(each.relative_to(folder)) for each in brokers), AUTHORITY]


def drop(folder: Path) -> list[str]:
    """Trust the former authority no more; returns the files that have changed.

    Raises:
        RotationRefused: a broker shows a certificate of it.
        ConfigError, OSError: a file cannot be used.
    """
    if (folder / NEXT).exists():
        raise RotationRefused(f"{folder / NEXT} has issued nothing: 'issue' first")
    trusted = split_certificates((folder / CA).read_text())
    shown = [each.read_text() for each in _check_brokers(folder, trusted)]
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
        RotationRefused: there are none, or one is of nobody whom clients trust.
    """
    brokers = brokers_in(folder)
    if not brokers:
        raise RotationRefused(f"{folder} has no certificate of a broker")
    for each in brokers:
        if not was_issued_by(each.read_text(), trusted):
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
    """The certificate that a broker shows; None if it does not run."""
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
