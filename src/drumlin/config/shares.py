"""The division of a machine's limits among its brokers. Pure.

Each broker gets an equal part, rounded up, but never less than it needs to work at all. An
unlimited setting stays unlimited. DescribeConfigs shows the whole limit, as configured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

_UNLIMITED: Final = 2**31 - 1
_MIB: Final = 1 << 20
_THREADS: Final = "log.cleaner.threads"

_Values = Mapping[str, Any]


def part(whole: int, brokers: int) -> int:
    """One broker's part of a numeric limit."""
    return whole if whole >= _UNLIMITED else -(-whole // brokers)


def _counted(name: str) -> Callable[[_Values, int], Any]:
    return lambda values, brokers: part(values[name], brokers)


def _map_bytes(values: _Values, brokers: int) -> int:
    whole: int = values["log.cleaner.dedupe.buffer.size"]
    return max(whole // brokers, part(values[_THREADS], brokers) * _MIB)


def _request_bytes(values: _Values, brokers: int) -> int:
    whole: int = values["queued.max.request.bytes"]
    return max(whole // brokers, values["socket.request.max.bytes"]) if whole > 0 else whole


def _cleaner_speed(values: _Values, brokers: int) -> float:
    speed: float = values["log.cleaner.io.max.bytes.per.second"]
    return speed / brokers


_SHARED: Final[Mapping[str, Callable[[_Values, int], Any]]] = {
    "log.cleaner.dedupe.buffer.size": _map_bytes,
    "log.cleaner.io.max.bytes.per.second": _cleaner_speed,
    _THREADS: _counted(_THREADS),
    "max.connection.creation.rate": _counted("max.connection.creation.rate"),
    "max.connections": _counted("max.connections"),
    "max.connections.per.ip": _counted("max.connections.per.ip"),
    "num.recovery.threads.per.data.dir": _counted("num.recovery.threads.per.data.dir"),
    "queued.max.request.bytes": _request_bytes,
}


def shares(values: _Values, brokers: int) -> dict[str, Any]:
    """One broker's part of each shared limit, by key."""
    return {name: share(values, brokers) for name, share in _SHARED.items()}
