"""`drumlin cluster adopt`: turn one broker into a cluster on ZooKeeper.

Explains the move, asks for confirmation and starts it; `metadata.to_zookeeper` decides the steps.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import click

from drumlin.cli.terminal import output
from drumlin.cli.terminal.commands import Option, command
from drumlin.cli.terminal.options import AsJson, Yes, confirm, examples, read_properties

if TYPE_CHECKING:
    from drumlin.metadata.to_zookeeper.steps import Move
    from drumlin.metadata.to_zookeeper.stopped_broker import EmbeddedData
    from drumlin.metadata.to_zookeeper.stopped_kafka import KafkaData
    from drumlin.metadata.zookeeper.session.session import Session

_TIMEOUT_MS: Final = 18_000


def adopt(
    data: Annotated[
        str, Option("--data", metavar="DIR[,…]", help="All log.dirs of the broker, in their order.")
    ],
    zookeeper: Annotated[
        str,
        Option(
            "--zookeeper",
            "-z",
            metavar="HOST:PORT[,…][/CHROOT]",
            help="The brokers' zookeeper.connect from now on.",
        ),
    ],
    node_id: Annotated[
        int | None,
        Option("--node-id", min=0, help="The broker's id, if its log dirs do not contain it."),
    ] = None,
    zookeeper_config: Annotated[
        Path | None,
        Option(
            "--zookeeper-config",
            metavar="FILE",
            help="A properties file for TLS and digest to ZooKeeper, with a broker's keys.",
        ),
    ] = None,
    metadata_log_dir: Annotated[
        str | None,
        Option(
            "--metadata-log-dir",
            metavar="DIR",
            help="Apache Kafka's metadata.log.dir, if it is not among --data.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, Option("--dry-run", "-n", help="Show what would be done, and do nothing.")
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Move the metadata of a stopped broker into ZooKeeper, so that further brokers can join it.

    Topics keep their ids, records, configurations, committed offsets and transactions. Only the
    metadata is moved, out of the file drumlin-metadata.sqlite, which is kept as
    drumlin-metadata.sqlite.adopted; logs stay where they are.

    --data may also be one node of an Apache Kafka cluster in KRaft mode: the metadata of the whole
    cluster is written, from that node's metadata log, which is not changed. Stop all nodes first,
    and choose the one whose metadata log is longest: --dry-run shows its end.

    The chroot must be empty or not exist yet. If the command fails or is killed, run it again: it
    completes what is missing.
    """
    from drumlin.metadata.to_zookeeper.stopped_kafka import data_in

    embedded = data_in(_paths_in(data), node_id, metadata_log_dir)
    with _failures(), embedded, _session(zookeeper, zookeeper_config) as session:
        _adopt(embedded, session, dry_run=dry_run, yes=yes, as_json=as_json)


def _paths_in(data: str) -> list[Path]:
    paths = [Path(each.strip()) for each in data.split(",") if each.strip()]
    if not paths:
        raise click.BadParameter("--data names no directory")
    return paths


@contextlib.contextmanager
def _failures() -> Iterator[None]:
    """Report expected errors in one line."""
    from drumlin.metadata.to_zookeeper.stopped_broker import AdoptionRefused
    from drumlin.zookeeper.connection import ZooKeeperFailure
    from drumlin.zookeeper.nodes import UnreadableNode

    try:
        yield
    except (AdoptionRefused, UnreadableNode, ZooKeeperFailure) as error:
        raise output.Failure(str(error)) from None


def _adopt(
    data: EmbeddedData, session: Session, *, dry_run: bool, yes: bool, as_json: bool
) -> None:
    from drumlin.metadata.to_zookeeper.steps import carry_out, plan
    from drumlin.zookeeper.connection import ZooKeeperFailure

    move = plan(data, session)
    if not as_json and (dry_run or not yes):
        print(_explanation(move, data, session))
    if not dry_run and not move.is_done:
        confirm(f"Move broker {data.node_id} into ZooKeeper?", yes)
        try:
            carry_out(move, data, session)
        except ZooKeeperFailure as error:
            raise output.Failure(f"{error}; run this again to complete the move") from None
    _say_end(move, data, session, is_dry=dry_run, as_json=as_json)


@contextlib.contextmanager
def _session(hosts: str, config: Path | None) -> Iterator[Session]:
    from drumlin.metadata.zookeeper.session.session import Session
    from drumlin.zookeeper.access import access_in
    from drumlin.zookeeper.connection import connect

    client = connect(
        hosts,
        session_timeout_ms=_TIMEOUT_MS,
        connection_timeout_ms=_TIMEOUT_MS,
        needs_chroot=False,
        access=access_in(read_properties(config) if config else {}),
    )
    session = Session(client, hosts, _TIMEOUT_MS / 1000)
    try:
        yield session
    finally:
        session.close()


def _explanation(move: Move, data: EmbeddedData, session: Session) -> str:
    from drumlin.metadata.embedded.database import FILE_NAME
    from drumlin.metadata.to_zookeeper.stopped_broker import SET_ASIDE
    from drumlin.metadata.to_zookeeper.stopped_kafka import KafkaData

    where = f"{data.first} (broker {data.node_id}, cluster {move.cluster_id})"
    if move.is_done:
        return f"{where} has its metadata in ZooKeeper on {session.hosts} already."
    if move.store is None:
        return f"ZooKeeper on {session.hosts} has all metadata of {where}."
    facts = _facts(move)
    lines = [
        f"The metadata of {where} goes into ZooKeeper on {session.hosts}, {_state_of(move)}:",
        f"  {facts['topics']} topics with {facts['partitions']} partitions"
        + (f", of which {facts['topics_present']} are there" if facts["topics_present"] else ""),
        f"  configurations of {facts['configs']} topics, brokers and groups",
        f"  producer ids, the next one is {facts['next_producer_id']}",
    ]
    if isinstance(data, KafkaData):
        lines += _of_kafka(data)
    else:
        lines += [
            f"  {facts['deleted_topics']} deleted topics whose folders may still exist",
            "Each partition is led by this broker alone. Logs are not touched, and the file",
            f"{FILE_NAME} becomes {SET_ASIDE}. There is no way back.",
        ]
    return "\n".join(lines)


def _of_kafka(data: KafkaData) -> list[str]:
    lines = [f"It comes from Apache Kafka, up to offset {data.end_offset} of epoch {data.epoch}."]
    if len(data.voters) != 1:
        known = f" ({', '.join(map(str, data.voters))})" if data.voters else ""
        lines += [
            f"If another controller{known} has a later metadata log, by epoch and then by offset,",
            "use its data instead. All nodes must be stopped.",
        ]
    return [
        *lines,
        "Partitions keep their replicas and their ISR. Kafka's own files are not changed, but",
        "Kafka will not know the records written from now on. There is no way back.",
    ]


def _state_of(move: Move) -> str:
    chroot = move.chroot
    assert chroot is not None
    if chroot.is_stale:
        return "which has an older state, to be replaced"
    if chroot.adoption is not None:
        return "where a part of it exists already"
    if chroot.cluster_id is not None:
        return "which has this cluster"
    return "where there is no cluster yet"


def _facts(move: Move) -> dict[str, Any]:
    store, chroot = move.store, move.chroot
    if store is None or chroot is None:
        return {}
    topics = store.image.topics.values()
    return {
        "topics": len(topics),
        "partitions": sum(len(each.partitions) for each in topics),
        "topics_present": len(chroot.present),
        "configs": len(store.image.all_configured()),
        "next_producer_id": store.next_producer_id,
        "deleted_topics": len(store.deleted),
    }


def _say_end(
    move: Move, data: EmbeddedData, session: Session, *, is_dry: bool, as_json: bool
) -> None:
    from drumlin.metadata.to_zookeeper.stopped_kafka import KafkaData

    if as_json:
        known: dict[str, Any] = {"cluster_id": move.cluster_id, "node_id": data.node_id}
        if isinstance(data, KafkaData) and move.store is not None:
            known |= {"metadata_end_offset": data.end_offset, "metadata_epoch": data.epoch}
        is_moved = move.is_done or not is_dry
        output.show_json({**known, "zookeeper": session.hosts, "moved": is_moved, **_facts(move)})
    elif not is_dry:
        done = "is there already" if move.is_done else "is moved"
        is_kafkas = isinstance(data, KafkaData)
        what = "The cluster" if is_kafkas else f"Broker {data.node_id}"
        which = "each broker on its log dirs, with its node.id and" if is_kafkas else "it with"
        print(f"{what} {done}. Start {which} --set zookeeper.connect={session.hosts}")


adopt_command: Final = command(
    adopt,
    epilog=examples(
        "drumlin cluster adopt --data /srv/drumlin --zookeeper zk1:2181,zk2:2181/drumlin --dry-run",
        "drumlin cluster adopt --data /srv/drumlin --zookeeper zk1:2181,zk2:2181/drumlin",
    ),
)
