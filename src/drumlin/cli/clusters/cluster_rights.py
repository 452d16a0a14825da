"""`drumlin cluster secure-zookeeper`: restrict nodes that were created without access control."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from drumlin.cli.terminal import output
from drumlin.cli.terminal.commands import Option, command
from drumlin.cli.terminal.options import AsJson, examples, read_properties

if TYPE_CHECKING:
    from drumlin.zookeeper.access import ZooKeeperAccess

_TIMEOUT_MS: Final = 18_000
#: Consumers before Kafka 0.9 write below it, without a login: Kafka leaves it open, too.
_OF_CONSUMERS: Final = "/consumers"


def secure_zookeeper(
    zookeeper: Annotated[
        str,
        Option(
            "--zookeeper",
            "-z",
            metavar="HOST:PORT[,…][/CHROOT]",
            help="The brokers' zookeeper.connect.",
        ),
    ],
    zookeeper_config: Annotated[
        Path,
        Option(
            "--zookeeper-config",
            metavar="FILE",
            help="The brokers' properties: drumlin.zookeeper.digest, or TLS with a certificate.",
        ),
    ],
    dry_run: Annotated[
        bool, Option("--dry-run", "-n", help="Show what would be done, and do nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Let only the brokers' user change nodes in ZooKeeper, and read the secret ones.

    With zookeeper.set.acl brokers create such nodes; this command restricts the older ones.
    Restart all brokers with the user, then with zookeeper.set.acl=true, and then run this, while
    they run. Nodes of consumers before Kafka 0.9, below /consumers, stay open.
    """
    from drumlin.metadata.zookeeper.session.session import Session
    from drumlin.metadata.zookeeper.states.reading import every_node
    from drumlin.zookeeper.connection import ZooKeeperFailure, connect

    try:
        client = connect(
            zookeeper,
            session_timeout_ms=_TIMEOUT_MS,
            connection_timeout_ms=_TIMEOUT_MS,
            access=_access(zookeeper_config),
        )
        session = Session(client, zookeeper, _TIMEOUT_MS / 1000)
        try:
            found = [each for each in every_node(session) if not _is_consumers(each)]
            paths = session.open_nodes(found)
            if not dry_run:
                session.close_nodes(paths)
        finally:
            session.close()
    except ZooKeeperFailure as error:
        raise output.Failure(str(error)) from None
    done = "is open" if dry_run else "closed"
    rows = [{"node": each, "is_closed": not dry_run} for each in paths]
    output.show_changes(rows, [f"{each}: {done}" for each in paths], as_json)


def _access(file: Path) -> ZooKeeperAccess:
    from drumlin.zookeeper.access import access_in

    access = access_in(read_properties(file))
    if access.digest is None and not (access.is_encrypted and access.own):
        lacking = "drumlin.zookeeper.digest, nor TLS with zookeeper.ssl.keystore.location"
        raise output.Failure(f"{file} has neither {lacking}: who may change the nodes then?")
    return access._replace(sets_acl=True)


def _is_consumers(path: str) -> bool:
    return path == _OF_CONSUMERS or path.startswith(f"{_OF_CONSUMERS}/")


secure_zookeeper_command: Final = command(
    secure_zookeeper,
    epilog=examples(
        "drumlin cluster secure-zookeeper -z zk1:2181/drumlin --zookeeper-config "
        "server.properties --dry-run",
        "drumlin cluster secure-zookeeper -z zk1:2181/drumlin --zookeeper-config server.properties",
    ),
)
