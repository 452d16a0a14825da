"""Creates processors: checks the options, connects, and creates the changelog."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from drumlin.client import arguments
from drumlin.client.client import connect
from drumlin.client.transactions.errors import UnknownTransaction
from drumlin.state.changelog import Changelog
from drumlin.state.changelog_format import owner_id
from drumlin.state.options import OutputDelivery, ProcessorOptions
from drumlin.state.processor import Processor
from drumlin.state.standbys.replicas import Replicas
from drumlin.state.topics import NewPartitions

if TYPE_CHECKING:
    from drumlin.client.arguments import Decode
    from drumlin.peer.security.security import Security


def processor(
    topics: str | Sequence[str],
    *,
    group: str,
    state: str,
    bootstrap: str,
    start: Literal["earliest", "latest"] = "earliest",
    commit_interval_ms: int = 100,
    idle_timeout_ms: int | None = None,
    tick_interval_ms: int | None = None,
    decode: Decode | None = None,
    headers: bool = False,
    replication_factor: int = -1,
    group_instance_id: str | None = None,
    session_timeout_ms: int = 10_000,
    heartbeat_interval_ms: int = 3_000,
    max_poll_interval_ms: int = 300_000,
    transaction_timeout_ms: int = 60_000,
    output: OutputDelivery = "exactly_once",
    folder: str | os.PathLike[str] | None = None,
    standbys: int = 0,
    dead_letters: str | None = None,
    new_partitions: NewPartitions = "refuse",
    security: Security | Mapping[str, str] | None = None,
) -> Processor:
    """Create a processor of topics, with its state in the topic `<group>-<state>-changelog`.

    Processes with the same group and state share the partitions. All members of the group must be
    processors.

    Args:
        topics: the input topic, or several ones with the same number of partitions: partition N of
            all of them is processed by one process, and shares a state.
        group: the consumer group.
        state: the name of the state.
        bootstrap: "host:port[,host:port...]" of the cluster of all these topics.
        start: where to begin in a partition without a committed offset: "earliest" or "latest".
        commit_interval_ms: how often to commit. A commit makes output visible to read_committed
            readers.
        idle_timeout_ms: iteration ends after this time without a record; None: never. The time
            starts again when partitions are assigned, and is longer by `max_poll_interval_ms`
            before the first assignment.
        tick_interval_ms: each partition also gets a batch without records this often, for timers
            that are due by the clock; None: never.
        decode: "utf8" or "json", as in `Client.read`. The state always holds bytes.
        headers: add the column `headers`.
        replication_factor: of the changelog, if it is created; -1: the broker's default.
        group_instance_id: the name of this process, unique in the group: it keeps its partitions
            if it is started again within `session_timeout_ms`; None: they move at once.
        session_timeout_ms: a process that sends no heartbeat for this long loses its partitions.
        heartbeat_interval_ms: the time between heartbeats.
        max_poll_interval_ms: a process that takes longer to process a batch loses its partitions.
        transaction_timeout_ms: a transaction that is open for longer is aborted.
        output: "exactly_once": output becomes visible to read_committed readers when its batch is
            committed; "at_least_once": output is visible to all readers when its batch has been
            processed, and may be repeated after a failure. The state counts each record once in
            either case.
        folder: where to keep the state on disk, for states larger than memory and for restarts that
            read only the latest changes; None: in memory. Each process needs its own folder, and
            should get the same one when it is restarted.
        standbys: how many other processes keep a replica of each partition's state, to take over
            quickly when the owner fails; the same in all processes of the group.
        dead_letters: the topic for records that `Processor.run` fails to process; None: such a
            record stops the processor.
        new_partitions: "refuse": the processor stops when partitions are added to the input, as
            keys may be in other partitions than their state; "follow": it continues, with an empty
            state for each new partition; the same in all processes of the group.
        security: TLS and login, as in `connect`.

    Returns:
        The processor: a context manager that iterates over batches.

    Raises:
        StateRefused: the changelog does not match the input; or another process uses the folder.
        StoreFailed: the folder cannot be created.
        UnknownTopic: the input topic does not exist.
        BrokerUnreachable, AuthenticationFailed: as from `connect`.
        TypeError, ValueError: an option is invalid.
    """
    inputs = (topics,) if isinstance(topics, str) else tuple(dict.fromkeys(topics))
    for name, value in (*(("topic", each) for each in inputs), ("group", group), ("state", state)):
        arguments.text(name, value)
        if not value:
            raise ValueError(f"{name} is empty")
    if not inputs:
        raise ValueError("no topics to process")
    if len(inputs) > 1 and new_partitions == "follow":
        raise ValueError("new_partitions='follow' is for one input only")
    options = ProcessorOptions(
        start=start,
        commit_interval_ms=commit_interval_ms,
        idle_timeout_ms=idle_timeout_ms,
        tick_interval_ms=tick_interval_ms,
        decode=decode,
        headers=headers,
        group_instance_id=group_instance_id,
        session_timeout_ms=session_timeout_ms,
        heartbeat_interval_ms=heartbeat_interval_ms,
        max_poll_interval_ms=max_poll_interval_ms,
        transaction_timeout_ms=transaction_timeout_ms,
        output=output,
        folder=folder,
        standbys=standbys,
        dead_letters=dead_letters,
        new_partitions=new_partitions,
    )
    with contextlib.ExitStack() as undo:
        own_id = owner_id(group, state, group_instance_id)
        client = connect(bootstrap, client_id=own_id, security=security)
        undo.callback(client.close)
        changelog = Changelog(client, group, state)
        changelog.make(inputs, replication_factor, grows=new_partitions == "follow")
        if group_instance_id is not None:
            # An earlier process with this name may have left a transaction open.
            with contextlib.suppress(UnknownTransaction):
                client.abort_transaction(own_id)
        follower = None
        if standbys:
            other = connect(bootstrap, client_id=f"{own_id}-standby", security=security)
            follower = Changelog(other, group, state)
            undo.callback(follower.close)
            follower.identify()
        replicas = Replicas(folder, changelog.topic, follower)
        undo.callback(replicas.close)
        made = Processor(client, inputs, group, changelog, own_id, replicas, options)
        undo.pop_all()
    return made
