"""Facts about this machine: limits, clock, ports, and the file systems of log dirs."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import socket
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from drumlin.cli.doctor.facts import FileSystem, Machine, Port
from drumlin.config.listeners import Listener

_LOCK: Final = ".lock"
_LOG_FOLDER: Final = re.compile(r".+-[0-9]+")
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")
#: What `adjtimex` returns while the clock is not synchronized, and room for its structure.
_NOT_SYNCHRONIZED: Final = 5
_TIMEX_BYTES: Final = 512


def look_at_machine(log_dirs: Sequence[Path]) -> Machine:
    """This machine, for a broker with these log dirs."""
    pid = _user_of(log_dirs[0] / _LOCK) if log_dirs else None
    return Machine(
        broker_pid=pid,
        descriptors_max=_descriptors_max(pid),
        memory_maps_max=_number_in("/proc/sys/vm/max_map_count"),
        is_clock_synchronized=_is_clock_synchronized(),
        ephemeral_ports=_ephemeral_ports(),
        file_systems=tuple(_file_systems(log_dirs)),
        partitions=sum(_count_logs(each) for each in log_dirs),
    )


def closed_ports(listeners: Iterable[Listener]) -> tuple[Port, ...]:
    """The ports on which a broker could not listen now."""
    return tuple(
        Port(each.address, error) for each in listeners if (error := _why_not(each)) is not None
    )


def _why_not(listener: Listener) -> str | None:
    family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind((listener.host, listener.port))
            taken.listen()
        except OSError as error:
            return error.strerror or str(error)
    return None


def _user_of(path: Path) -> int | None:
    """The process that has a file open; None if none has, or it is another user's."""
    wanted = path.resolve()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if any(each.readlink() == wanted for each in (process / "fd").iterdir()):
                return int(process.name)
        except OSError:
            continue  # it has ended, or belongs to somebody else
    return None


def _descriptors_max(pid: int | None) -> int | None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if pid is not None:
        try:
            most = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
        except OSError:
            return None
    return None if most == resource.RLIM_INFINITY else most


def _is_clock_synchronized() -> bool | None:
    adjtimex = getattr(ctypes.CDLL(None), "adjtimex", None)
    state = -1 if adjtimex is None else adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    return None if state < 0 else state != _NOT_SYNCHRONIZED


def _ephemeral_ports() -> range:
    try:
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
        reserved = Path("/proc/sys/net/ipv4/ip_local_reserved_ports").read_text()
        first, last = map(int, text.split())
    except (OSError, ValueError):
        return range(0)
    return range(0) if reserved.strip() else range(first, last + 1)


def _number_in(path: str) -> int | None:
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):
        return None


def _count_logs(log_dir: Path) -> int:
    try:
        return sum(1 for each in log_dir.iterdir() if _LOG_FOLDER.fullmatch(each.name))
    except OSError:
        return 0


def _file_systems(log_dirs: Iterable[Path]) -> Iterator[FileSystem]:
    mounts = [*_mounts()]
    for each in log_dirs:
        path = each.resolve()
        try:
            room = os.statvfs(path)
        except OSError:
            continue  # the look at the directory itself tells that
        under = [mount for mount in mounts if path.is_relative_to(mount[0])]
        if not under:
            continue
        # The last of those at the deepest point hides the others.
        point, kind, options = max(reversed(under), key=lambda mount: len(Path(mount[0]).parts))
        yield FileSystem(
            str(path),
            kind,
            point,
            options,
            room.f_blocks * room.f_frsize,
            room.f_bavail * room.f_frsize,
            room.f_files,
            room.f_favail,
            os.access(path, os.W_OK),
        )


def _mounts() -> Iterator[tuple[str, str, frozenset[str]]]:
    """Mount point, type and options, of the mount and of its file system."""
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        before, _, after = line.partition(" - ")
        _, _, _, _, point, options, *_ = before.split()
        kind, _, *others = after.split(" ")
        known = frozenset([*options.split(","), *(others[0].split(",") if others else ())])
        yield _ESCAPED.sub(lambda found: chr(int(found[1], 8)), point), kind, known
