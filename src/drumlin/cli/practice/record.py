"""`cluster.json`: the members of a practice cluster, their addresses and process ids.

The file is for people, scripts and the next `up`; only the running `up` writes it. It may have
been edited, so every field is validated.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from drumlin.cli.practice.ports import HOST
from drumlin.cli.terminal.output import Failure

FILE_NAME: Final = "cluster.json"
_VERSION: Final = 1
PORT_MAX: Final = 65535
#: The most brokers of a practice cluster: far more than one machine runs well.
BROKERS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """One process of the cluster; `pid` is None while it does not run."""

    name: str
    port: int
    pid: int | None = None

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """The content of `cluster.json`. Brokers are in the order of their ids, which begin with 1."""

    port: int
    zookeeper: MemberRecord
    brokers: tuple[MemberRecord, ...]
    pid: int | None = None
    """The process id of the `up` that supervises the cluster."""

    @property
    def bootstrap(self) -> str:
        return ",".join(each.address for each in self.brokers)

    def with_pids(self, pid: int | None, pids: Mapping[str, int | None]) -> ClusterRecord:
        """The same cluster with other processes."""

        def member(each: MemberRecord) -> MemberRecord:
            return dataclasses.replace(each, pid=pids.get(each.name))

        return dataclasses.replace(
            self,
            pid=pid,
            zookeeper=member(self.zookeeper),
            brokers=tuple(member(each) for each in self.brokers),
        )


def read_record(directory: Path) -> ClusterRecord | None:
    """The record of the cluster in a directory; None if there was none yet.

    Raises:
        Failure: the file cannot be read, or is invalid.
    """
    path = directory / FILE_NAME
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise Failure(f"{path} cannot be read: {_reason(error)}") from None
    try:
        return _parsed(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise Failure(
            f"{path} is not what 'drumlin cluster up' writes ({_reason(error)}): correct it, or "
            "remove it to have it written again"
        ) from None


def write_record(directory: Path, record: ClusterRecord) -> None:
    """Replace the file: a reader sees the old one or the new one.

    Raises:
        OSError: the file cannot be written.
    """
    path = directory / FILE_NAME
    new = path.with_suffix(".new")
    value = {
        "version": _VERSION,
        "pid": record.pid,
        "bootstrap": record.bootstrap,
        "port": record.port,
        "zookeeper": {"address": record.zookeeper.address, "pid": record.zookeeper.pid},
        "brokers": [
            {"broker": int(each.name), "address": each.address, "pid": each.pid}
            for each in record.brokers
        ],
    }
    with new.open("w", encoding="utf-8") as file:
        file.write(json.dumps(value, indent=2) + "\n")
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def _parsed(value: Any) -> ClusterRecord:
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")
    if value.get("version") != _VERSION:
        raise ValueError(f"its version is {value.get('version')!r}, not {_VERSION}")
    brokers = value.get("brokers")
    if not isinstance(brokers, list) or not 0 < len(brokers) <= BROKERS_MAX:
        raise ValueError(f"it has no list of 1 to {BROKERS_MAX} brokers")
    members = tuple(_member(each, str(number)) for number, each in enumerate(brokers, 1))
    for number, each in enumerate(brokers, 1):
        if each.get("broker") != number:
            raise ValueError(f"broker {number} is not where it should be")
    return ClusterRecord(
        _port(value.get("port")),
        _member(value.get("zookeeper"), "zookeeper"),
        members,
        _pid(value.get("pid")),
    )


def _member(value: Any, name: str) -> MemberRecord:
    address = value.get("address") if isinstance(value, dict) else None
    host, _, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
    if host != HOST or not (port.isascii() and port.isdecimal()) or len(port) > 5:
        raise ValueError(f"{name} has no address {HOST}:PORT")
    return MemberRecord(name, _port(int(port)), _pid(value.get("pid")))


def _port(value: Any) -> int:
    if type(value) is not int or not 0 < value <= PORT_MAX:
        raise ValueError(f"{value!r} is no port")
    return value


def _pid(value: Any) -> int | None:
    if value is not None and (type(value) is not int or value <= 0):
        raise ValueError(f"{value!r} is no process id")
    return value


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
