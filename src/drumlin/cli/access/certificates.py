"""`drumlin certificates`: the authority that `drumlin server --secure` has made, and what it has
issued.

They are files in the data directory; no broker is asked.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from drumlin.cli.terminal import output
from drumlin.cli.terminal.commands import Argument, Group, Option
from drumlin.cli.terminal.options import AsJson, examples

if TYPE_CHECKING:
    from drumlin.securing.authority import Authority

app: Final = Group(help="Issue, renew and show the certificates of a server that is --secure.")

Data = Annotated[
    Path, Option("--data", metavar="DIR", help="The server's data directory (the first log dir).")
]
Hosts = Annotated[
    list[str] | None,
    Option("--host", metavar="HOST", help="A further name or address; repeatable."),
]


@app.add(epilog=examples("drumlin certificates show --data ./data"))
def show(data: Data, as_json: AsJson = False) -> None:
    """Show what the authority's and the broker's certificates say, and how long they are good."""
    from drumlin.securing.authority import read_certificate
    from drumlin.securing.client_files import CA
    from drumlin.securing.secured_server import BROKER

    rows: list[dict[str, Any]] = []
    with _told():
        for path in (data / CA, data / BROKER):
            issued = read_certificate(path.read_text())
            rows.append(
                {
                    "file": path.name,
                    "subject": issued.name,
                    "issuer": issued.issuer,
                    "hosts": [*issued.hosts],
                    "begin_timestamp": _ms(issued.begins),
                    "end_timestamp": _ms(issued.ends),
                    "days_left": (issued.ends - datetime.now(UTC)).days,
                    "sha256": issued.fingerprint,
                }
            )
    columns = ("file", "subject", "hosts", "end_timestamp", "days_left")
    output.show_rows(rows, columns, as_json=as_json)


@app.add(
    epilog=examples(
        "drumlin certificates renew --data ./data",
        "drumlin certificates renew --data ./data --host broker.example",
    )
)
def renew(data: Data, hosts: Hosts = None, as_json: AsJson = False) -> None:
    """Issue the broker's certificate anew, for the hosts that it has, and the machine's names.

    A broker that runs takes it within seconds. Clients need nothing new: they trust the authority.
    """
    from drumlin.securing.authority import read_certificate
    from drumlin.securing.secured_server import BROKER, issue_brokers

    with _told():
        authority = _authority(data)
        path = data / BROKER
        pem = path.read_text()
        if not authority.has_issued(pem):
            raise output.Failure(f"{path} is not of the authority in {data}: it is left as it is")
        issue_brokers(data, authority, [*read_certificate(pem).hosts, *(hosts or ())])
        issued = read_certificate(path.read_text())
    row = {"file": str(path), "hosts": [*issued.hosts], "end_timestamp": _ms(issued.ends)}
    output.show_changes([row], [f"{path}: renewed until {issued.ends:%Y-%m-%d}"], as_json)


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
    """Issue a certificate: for a client that shows one, or for another broker with --host."""
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


def _authority(data: Path) -> Authority:
    from drumlin.securing.secured_server import AUTHORITY, read_authority

    authority = read_authority(data)
    if authority is None:
        raise output.Failure(f"{data} has no {AUTHORITY}: drumlin server --secure makes it")
    return authority


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Errors of files as one line."""
    try:
        yield
    except OSError as error:
        raise output.Failure(f"{error.filename}: {error.strerror}") from None


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
