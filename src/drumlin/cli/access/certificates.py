"""`drumlin certificates`: the certificate authority of `drumlin server --secure`, and the
certificates that it has issued.

The commands work on files in the data directory, without a request to a broker.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from drumlin.cli.terminal import output
from drumlin.cli.terminal.commands import Argument, Group, Option
from drumlin.cli.terminal.options import AsJson, examples

if TYPE_CHECKING:
    from drumlin.securing.authority import Authority, Issued

app: Final = Group(help="Issue, renew and show the certificates of a server that is --secure.")

_EXIT_USAGE: Final = 2

Data = Annotated[
    Path,
    Option(
        "--data",
        metavar="DIR",
        help="The server's data directory (the first log dir), or the cluster's.",
    ),
]
Hosts = Annotated[
    list[str] | None,
    Option("--host", metavar="HOST", help="A further name or address; repeatable."),
]


class Step(enum.StrEnum):
    """A step of the rotation of the authority."""

    TRUST = "trust"
    ISSUE = "issue"
    DROP = "drop"


#: The operator's tasks before the next step.
_AFTER: Final = {
    Step.TRUST: "give ca.pem to all clients, or client.properties; then: rotate issue",
    Step.ISSUE: "issue the certificates of clients anew, if there are any; then: rotate drop",
    Step.DROP: "the former authority is trusted no more",
}


@app.add(epilog=examples("drumlin certificates show --data ./data"))
def show(data: Data, as_json: AsJson = False) -> None:
    """Show the certificates of authorities and brokers, and how long they are valid."""
    from drumlin.securing.authority import read_certificate, read_pem, split_certificates
    from drumlin.securing.client_files import CA
    from drumlin.securing.issuing import BROKER, brokers_in

    rows: list[dict[str, Any]] = []
    with _told():
        for path in (data / CA, *(brokers_in(data) or [data / BROKER])):
            pems = split_certificates(read_pem(path))
            name = str(path.relative_to(data))
            found = map(read_certificate, pems if path.name == CA else pems[:1])
            rows += [_row(name, each) for each in found]
    columns = ("file", "subject", "hosts", "end_timestamp", "days_left")
    output.show_rows(rows, columns, as_json=as_json)


@app.add(
    epilog=examples(
        "drumlin certificates renew --data ./data",
        "drumlin certificates renew --data ./data --host broker.example",
    )
)
def renew(data: Data, hosts: Hosts = None, as_json: AsJson = False) -> None:
    """Renew the brokers' certificates, for their present hosts and the machine's names.

    A running broker uses the new one within seconds. Clients need no change: they trust the
    authority.
    """
    from drumlin.securing.authority import can_be_in_a_certificate, read_certificate, read_pem
    from drumlin.securing.issuing import BROKER, brokers_in, issue_broker

    rows: list[dict[str, Any]] = []
    with _told():
        authority = _authority(data)
        for host in hosts or ():
            if not can_be_in_a_certificate(host):
                raise output.Failure(f"--host: {host!r} is no host's name or address", _EXIT_USAGE)
        found = [(each, read_pem(each)) for each in brokers_in(data) or [data / BROKER]]
        for path, pem in found:
            if not authority.has_issued(pem):
                why = f"is not of the authority in {data}: it is left as it is"
                raise output.Failure(f"{path} {why}")
        for path, pem in found:
            issue_broker(path, authority, [*read_certificate(pem).hosts, *(hosts or ())])
            issued = read_certificate(read_pem(path))
            until = {"hosts": [*issued.hosts], "end_timestamp": _ms(issued.ends)}
            rows.append({"file": str(path), **until})
    lines = [f"{row['file']}: renewed until {issued.ends:%Y-%m-%d}" for row in rows]
    output.show_changes(rows, lines, as_json)


@app.add(
    epilog=examples(
        "drumlin certificates rotate trust --data ./data",
        "drumlin certificates rotate issue --data ./data",
        "drumlin certificates rotate drop --data ./data",
    )
)
def rotate(
    step: Annotated[Step, Argument("STEP", help="trust, issue, drop: one after the other.")],
    data: Data,
    as_json: AsJson = False,
) -> None:
    """Replace the authority with a new one, in three steps, without stopping brokers or clients.

    `trust` makes the new one; brokers, and clients that get the new ca.pem, trust both. `issue`
    gives brokers certificates of the new one, and deletes the key of the old one. `drop` removes
    the old one from ca.pem. Running brokers apply each step within seconds.
    """
    from drumlin.securing import rotation

    steps = {Step.TRUST: rotation.trust, Step.ISSUE: rotation.issue, Step.DROP: rotation.drop}
    with _told():
        try:
            changed = steps[step](data)
        except rotation.RotationRefused as error:
            raise output.Failure(str(error)) from None
    rows = [{"file": str(data / each), "step": step.value} for each in changed]
    lines = [f"{data / each}: written" for each in changed]
    output.show_changes(rows, [*lines, _AFTER[step]], as_json)


@app.add(
    epilog=examples(
        "drumlin certificates issue alice --data ./data --out alice.pem",
        "drumlin certificates issue broker-2 --host broker-2.example --data ./data --out b2.pem",
    )
)
def issue(
    name: Annotated[str, Argument("NAME", help="The certificate's name (CN).")],
    data: Data,
    out: Annotated[
        Path, Option("--out", metavar="FILE", help="For key and certificate, as PEM; a new file.")
    ],
    hosts: Hosts = None,
    as_json: AsJson = False,
) -> None:
    """Issue a certificate for a client that authenticates by TLS, or with --host for a broker."""
    from drumlin.securing.authority import read_certificate
    from drumlin.securing.private_files import write_private

    with _told():
        pem = _authority(data).issue(name, hosts or ())
        if out.exists():
            raise output.Failure(f"{out} exists")
        write_private(out.absolute(), pem)
    ends = read_certificate(pem).ends
    row = {"file": str(out), "name": name, "hosts": hosts or [], "end_timestamp": _ms(ends)}
    output.show_changes([row], [f"{out}: good until {ends:%Y-%m-%d}"], as_json)


def _row(file: str, issued: Issued) -> dict[str, Any]:
    return {
        "file": file,
        "subject": issued.name,
        "issuer": issued.issuer,
        "hosts": [*issued.hosts],
        "begin_timestamp": _ms(issued.begins),
        "end_timestamp": _ms(issued.ends),
        "days_left": (issued.ends - datetime.now(UTC)).days,
        "sha256": issued.fingerprint,
    }


def _authority(data: Path) -> Authority:
    from drumlin.securing.issuing import AUTHORITY, read_authority

    authority = read_authority(data)
    if authority is None:
        raise output.Failure(f"{data} has no {AUTHORITY}: drumlin server --secure makes it")
    return authority


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Report errors of files in one line."""
    from drumlin.config.config_error import ConfigError
    from drumlin.securing.authority import UnusableCertificate

    try:
        yield
    except (ConfigError, UnusableCertificate) as error:
        raise output.Failure(str(error)) from None
    except OSError as error:
        raise output.Failure(f"{error.filename}: {error.strerror}") from None


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
