"""The plan of an `up`: the number of brokers, their ports, and the directory of the cluster.

Starts nothing. Everything that may prevent a start is checked here, before any process runs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from drumlin.cli.practice.ports import HOST, is_free, reserve
from drumlin.cli.practice.record import PORT_MAX, ClusterRecord, MemberRecord, read_record
from drumlin.cli.terminal.output import Failure
from drumlin.storage.directory.directory_lock import DirectoryLock
from drumlin.storage.directory.meta_properties import FILE_NAME as META_PROPERTIES

DEFAULT_BROKERS: Final = 3
DEFAULT_PORT: Final = 9092
#: How long to wait until the processes of a killed `up` have ended.
_LEFTOVER_TIMEOUT_S: Final = 10.0
_LOOK_INTERVAL_S: Final = 0.05


@contextlib.contextmanager
def planned(directory: Path, count: int | None, port: int | None) -> Iterator[ClusterRecord]:
    """The cluster to be started; its directory and ZooKeeper's port are reserved meanwhile.

    `directory` is an absolute path. Defaults are those of the cluster's last start.

    Raises:
        Failure: the cluster cannot be started.
    """
    with _locked(directory):
        former = read_record(directory)
        record = _new_record(directory, former, count, port)
        if former is not None:
            _await_leftovers(directory, former)
        _check_ports(record)
        with contextlib.closing(_zookeepers_port(record)) as kept:
            zookeeper = MemberRecord("zookeeper", kept.getsockname()[1])
            yield dataclasses.replace(record, zookeeper=zookeeper)


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if (directory / META_PROPERTIES).exists():
            raise Failure(
                f"{directory} is the data directory of one broker: a cluster needs one of its own"
            )
        lock = DirectoryLock(str(directory))
        if not lock.acquire():
            raise Failure(f"{directory} is in use: a cluster runs there{_which(directory)}")
    except OSError as error:
        raise Failure(f"{directory}: {error.strerror or error}") from None
    try:
        yield
    finally:
        lock.release()


def _which(directory: Path) -> str:
    with contextlib.suppress(Failure):
        record = read_record(directory)
        if record is not None and record.pid is not None:
            return f" on {record.bootstrap} (process {record.pid})"
    return ""


def _new_record(
    directory: Path, former: ClusterRecord | None, count: int | None, port: int | None
) -> ClusterRecord:
    there = len(former.brokers) if former else 0
    count = count or there or DEFAULT_BROKERS
    if count < there:
        raise Failure(
            f"{directory} holds a cluster of {there} brokers: with {count}, partitions would be "
            "without replicas; stop single ones with 'drumlin cluster stop'"
        )
    first = port or (former.port if former else DEFAULT_PORT)
    if first + count - 1 > PORT_MAX:
        raise Failure(f"{count} brokers from port {first} on need ports beyond {PORT_MAX}")
    brokers = tuple(MemberRecord(str(each + 1), first + each) for each in range(count))
    # Port 0 is any port.
    zookeeper = former.zookeeper if former else MemberRecord("zookeeper", 0)
    return ClusterRecord(first, zookeeper, brokers)


def _await_leftovers(directory: Path, former: ClusterRecord) -> None:
    """Wait until the processes of a killed `up` have ended, which outlive it briefly."""
    deadline = time.monotonic() + _LEFTOVER_TIMEOUT_S
    for member in (*former.brokers, former.zookeeper):
        while member.pid is not None and _runs_in(directory, member.pid):
            if time.monotonic() > deadline:
                raise Failure(f"{directory} is in use: by process {member.pid} of an earlier run")
            time.sleep(_LOOK_INTERVAL_S)


def _runs_in(directory: Path, pid: int) -> bool:
    """Whether a process is a member of this cluster: another one may have reused its id."""
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    inside = f"{directory}/".encode()
    return any(each.startswith(inside) for each in arguments)


def _check_ports(record: ClusterRecord) -> None:
    for broker in record.brokers:
        if not is_free(broker.port):
            raise Failure(
                f"port {broker.port} of {HOST}, for broker {broker.name}, is taken: "
                "choose others with --port"
            )


def _zookeepers_port(record: ClusterRecord) -> socket.socket:
    """A port for ZooKeeper: the last one if it is free, though only brokers use it."""
    kept = None
    if record.zookeeper.port not in {each.port for each in record.brokers}:
        kept = reserve(record.zookeeper.port)
    kept = kept or reserve(0)
    if kept is None:
        raise Failure(f"{HOST} has no free port for ZooKeeper")
    return kept
