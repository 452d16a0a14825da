"""A process with little memory: it ends if it reserves what a peer only announces."""

from __future__ import annotations

import resource

import psutil

_MIB = 1 << 20
#: What a process may reserve beyond what it has. The schemas' native reader asked for 34 GB.
ROOM_BYTES = 1024 * _MIB


def limit_memory(pid: int) -> None:
    """Let the process reserve `ROOM_BYTES` more than it has now, and no more."""
    reserved = psutil.Process(pid).memory_info().vms
    limit = reserved + ROOM_BYTES
    resource.prlimit(pid, resource.RLIMIT_AS, (limit, limit))


def resident_bytes(pid: int) -> int:
    """Memory that the process really uses."""
    return int(psutil.Process(pid).memory_info().rss)
