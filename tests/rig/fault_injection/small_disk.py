"""A disk that is soon full: a small tmpfs, mounted for a test.

A run that is killed cannot unmount what it has mounted. So a mount bears the process that made
it, and the next run removes those whose process is gone, and no others.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

_NAME = re.compile(r"drumlin-test-(\d+)-(\d+)")
_OCTAL = re.compile(r"\\([0-7]{3})")


class NotPermitted(Exception):
    """This user may not mount."""


@contextlib.contextmanager
def small_disk(path: Path, size_mib: int) -> Iterator[None]:
    """Have a tmpfs of that size at `path`, an empty folder.

    Raises:
        NotPermitted: it cannot be mounted.
    """
    remove_leftovers()
    name = f"drumlin-test-{os.getpid()}-{_started(os.getpid())}"
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_mib}m", name, str(path)]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=10)
    except (OSError, subprocess.CalledProcessError) as error:
        raise NotPermitted(f"cannot mount a tmpfs: {error}") from error
    try:
        yield
    finally:
        _unmount(path)


@contextlib.contextmanager
def small_disk_or_skip(folder: Path, size_mib: int) -> Iterator[Path]:
    """The path of such a disk in a folder; the test is skipped where mounting is not permitted."""
    path = folder / "disk"
    path.mkdir()
    try:
        with small_disk(path, size_mib):
            yield path
    except NotPermitted as error:
        pytest.skip(str(error))


def remove_leftovers() -> None:
    """Unmount the disks of processes that are gone."""
    for name, path in mounted():
        pid, started = (int(number) for number in name.split("-")[-2:])
        if _started(pid) != started:
            _unmount(path)


def mounted() -> list[tuple[str, Path]]:
    """Our disks, of whichever run: their names, and where they are."""
    rows = [line.split(" ") for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [
        (name, Path(_OCTAL.sub(lambda found: chr(int(found[1], 8)), path)))
        for name, path, kind, *_ in rows
        if kind == "tmpfs" and _NAME.fullmatch(name)
    ]


def _started(pid: int) -> int:
    """When a process began, in the system's ticks; -1 without one. Process ids are used again."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return -1
    return int(status.rpartition(")")[2].split()[19])


def _unmount(path: Path) -> None:
    # Lazily: a server that was killed may still hold a file for a moment.
    subprocess.run(["umount", "-l", str(path)], check=False, capture_output=True, timeout=10)
