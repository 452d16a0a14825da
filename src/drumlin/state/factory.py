"""Makes processors: checks the options, connects, and makes the changelog."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from drumlin.client import arguments
from drumlin.client.client import connect
from drumlin.state.changelog import Changelog
from drumlin.state.processor import Processor
from drumlin.state.replicas import Replicas
from drumlin.state.work import OutputDelivery

if TYPE_CHECKING:
    from drumlin.client.arguments import Decode
    from drumlin.peer.security.security import Security


def processor(
    topic: str,
    *,
    group: str,
    state: str,
    bootstrap: str,
    start: Literal["earliest", "latest"] = "earliest",
    commit_interval_ms: int = 100,
    idle_timeout_ms: int | None = None,
    decode: Decode | None = None,
    headers: bool = False,
    replication_factor: int = -1,
    session_timeout_ms: int = 10_000,
    heartbeat_interval_ms: int = 3_000,
    max_poll_interval_ms: int = 300_000,
    transaction_timeout_ms: int = 60_000,
    output: OutputDelivery = "exactly_once",
    folder: str | os.PathLike[str] | None = None,
    standbys: int = 0,
    dead_letters: str | None = None,
    security: Security | Mapping[str, str] | None = None,
) -> Processor:
    """A processor of a topic, with a state stored in the topic `<group>-<state>-changelog`.

    Processes with the same group and state share the partitions. All members of the group must be
    processors.

    Args:
        topic: the input.
        group: the consumer group.
        state: the name of the state.
        bootstrap: "host:port[,host:port...]" of the cluster that has input, changelog and output.
        start: where to begin in a partition without a committed offset: "earliest" or "latest".
        commit_interval_ms: how often to commit, which shows the output to read_committed readers.
        idle_timeout_ms: iteration ends after this time without a record; None: never.
        decode: "utf8" or "json", as in `Client.read`. The state always holds bytes.
        headers: add the column `headers`.
        replication_factor: of the changelog, if it is created; -1: the broker's default.
        session_timeout_ms: a process without a heartbeat for this long loses its partitions.
        heartbeat_interval_ms: the time between heartbeats.
        max_poll_interval_ms: a process that takes longer for a batch loses its partitions.
        transaction_timeout_ms: a transaction that is open for longer is aborted.
        output: "exactly_once": each record becomes visible to readers of committed records when its
            batch is committed; "at_least_once": at once and to all readers, and after a failure
            once more. The state counts each record once in any case.
        folder: where to keep the state on disk, for states larger than memory, and so that only
            what has changed since is read after a restart; None: in memory. Each process needs a
            folder of its own, which stays the same when it starts again.
        standbys: how many other processes keep a replica of each partition, which take over in no
            time when its owner is gone; the same in all processes of the group.
        dead_letters: the topic for records whose processing raises, with `Processor.run`; None:
            such a record stops the processor.
        security: TLS and login, as in `connect`.

    Returns:
        The processor: a context manager that iterates over batches.

    Raises:
        StateRefused: the changelog belongs to another input; or another process uses the folder.
        StoreFailed: the folder cannot be made.
        UnknownTopic: there is no such input.
        BrokerUnreachable, AuthenticationFailed: as from `connect`.
        TypeError, ValueError: an option cannot have this value.
    """
    for name, value in (("topic", topic), ("group", group), ("state", state)):
        arguments.text(name, value)
        if not value:
            raise ValueError(f"{name} is empty")
    arguments.one_of("start", start, ("earliest", "latest"))
    arguments.one_of("output", output, ("exactly_once", "at_least_once"))
    arguments.whole_number("commit_interval_ms", commit_interval_ms, 1, 2**31 - 1)
    arguments.whole_number("transaction_timeout_ms", transaction_timeout_ms, 1, 2**31 - 1)
    arguments.numbers_at_least({"idle_timeout_ms": idle_timeout_ms}, 0)
    if dead_letters is not None:
        arguments.text("dead_letters", dead_letters)
    if folder is not None and not isinstance(folder, str | os.PathLike):
        raise TypeError(f"folder {arguments.shown(folder)}: expected a path")
    arguments.whole_number("standbys", standbys, 0, 100)
    with contextlib.ExitStack() as undo:
        # By the members' client ids it is seen whose transactions are nobody's any more.
        own_id = f"{group}-{state}-{uuid.uuid4()}"
        client = connect(bootstrap, client_id=own_id, security=security)
        undo.callback(client.close)
        changelog = Changelog(client, group, state)
        changelog.make(topic, replication_factor)
        follower = None
        if standbys:
            other = connect(bootstrap, client_id=f"{own_id}-standby", security=security)
            follower = Changelog(other, group, state)
            undo.callback(follower.close)
            follower.identify()
        replicas = Replicas(folder, changelog.topic, follower)
        undo.callback(replicas.close)
        made = Processor(
            client,
            topic,
            group,
            changelog,
            own_id,
            start=start,
            commit_interval_ms=commit_interval_ms,
            idle_timeout_ms=idle_timeout_ms,
            transaction_timeout_ms=transaction_timeout_ms,
            output=output,
            standbys=standbys,
            replicas=replicas,
            dead_letters=dead_letters,
            decode=decode,
            headers=headers,
            reading={
                "session_timeout_ms": session_timeout_ms,
                "heartbeat_interval_ms": heartbeat_interval_ms,
                "max_poll_interval_ms": max_poll_interval_ms,
            },
        )
        undo.pop_all()
    return made
