"""Checks of log dirs on this machine: file systems, mounts, room, rights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

from drumlin.cli.doctor.facts import FileSystem, Machine
from drumlin.cli.doctor.finding import Finding, Severity
from drumlin.cli.terminal.output import human_bytes

_NETWORK: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "virtiofs"}
)
_IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})
_OF_A_CONTAINER: Final = frozenset({"overlay", "aufs"})
#: Options by which a sync does not reach the disk, or files come back with old content.
_LOSING: Final = {
    "nobarrier": "a sync does not reach the disk",
    "barrier=0": "a sync does not reach the disk",
    "data=writeback": "a file may come back with another file's old content",
    "norecovery": "the journal is not replayed",
    "noload": "the journal is not replayed",
}
_FLEETING: Final = "/tmp"  # noqa: S108
_FREE_WARNING, _FREE_ERROR = 0.1, 0.03


def file_system(machine: Machine) -> Iterator[Finding]:
    """Whether a log dir is on a disk of this machine."""
    for each in machine.file_systems:
        kind = each.kind.removeprefix("fuse.")
        why, severity = "", Severity.WARNING
        if each.kind in _IN_MEMORY:
            why, severity = "all records are gone after the next boot", Severity.ERROR
        elif each.kind in _OF_A_CONTAINER:
            why, severity = "all records are gone with the container", Severity.ERROR
        elif each.kind in _NETWORK or each.kind.startswith("fuse"):
            why = (
                "locks and syncs are those of another machine or program: after a failure there, "
                "records that were flushed may be missing, and a pause there stops the broker"
            )
        if why:
            yield Finding(
                severity,
                "file-system",
                each.path,
                f"{each.path} is on {kind} ({each.mount_point})",
                why,
                "stop the broker, copy the directory to ext4 or XFS on a disk of this machine, and "
                "give that as log.dirs",
            )


def fleeting(machine: Machine) -> Iterator[Finding]:
    """Whether a log dir is where systems remove files of their own accord."""
    for each in machine.file_systems:
        if PurePath(each.path).is_relative_to(_FLEETING):
            yield Finding(
                Severity.WARNING,
                "fleeting-directory",
                each.path,
                f"{each.path} is below {_FLEETING}",
                "many systems clear it when they start, or remove there what is old",
                "stop the broker, move the directory, and give its new place as log.dirs",
            )


def mount_options(machine: Machine) -> Iterator[Finding]:
    """Whether a mount has options by which what was flushed may be lost."""
    for each in machine.file_systems:
        for option in sorted(each.options & _LOSING.keys()):
            yield Finding(
                Severity.ERROR,
                "mount-option",
                each.path,
                f"{each.mount_point} is mounted with {option}",
                f"{_LOSING[option]}: after a power failure flushed records may be missing or wrong",
                f"remove {option} from /etc/fstab, and mount {each.mount_point} again",
            )


def writable(machine: Machine) -> Iterator[Finding]:
    """Whether a log dir can be written to."""
    for each in machine.file_systems:
        if "ro" in each.options:
            yield Finding(
                Severity.ERROR,
                "read-only",
                each.path,
                f"{each.mount_point} is mounted read-only",
                "the log dir is offline; the kernel does that after an error of the disk",
                f"look at `dmesg` and the disk first; then mount -o remount,rw {each.mount_point}",
            )
        elif not each.is_writable:
            yield Finding(
                Severity.NOTE,
                "rights",
                each.path,
                f"the user who runs the doctor may not write to {each.path}",
                "a broker of this user does not start there",
                f"run both as the owner of {each.path}",
            )


def room(machine: Machine) -> Iterator[Finding]:
    """Whether a log dir has room for records and for files."""
    for each in machine.file_systems:
        yield from _room_of(each)


def _room_of(each: FileSystem) -> Iterator[Finding]:
    severity = room_severity(each.free_bytes, each.total_bytes)
    if severity is not None:
        yield Finding(
            severity,
            "disk-room",
            each.path,
            f"{human_bytes(each.free_bytes)} of {human_bytes(each.total_bytes)} are free on "
            f"{each.mount_point}",
            "when it is full, producers are refused; the cleaner stops before that",
            "shorter retention.ms or retention.bytes of the largest topics "
            "(drumlin top, view brokers), or a larger disk",
        )
    severity = room_severity(each.free_inodes, each.total_inodes)
    if severity is not None:
        yield Finding(
            severity,
            "inodes",
            each.path,
            f"{each.free_inodes:,} of {each.total_inodes:,} inodes are free on {each.mount_point}",
            "no segment can be added when there are none, however much room is left",
            "larger segment.bytes, fewer partitions, or a file system with more inodes",
        )


def room_severity(free: int, total: int) -> Severity | None:
    """How bad it is that so much is left; None if it is not."""
    if total <= 0 or free >= total * _FREE_WARNING:
        return None
    return Severity.ERROR if free < total * _FREE_ERROR else Severity.WARNING
