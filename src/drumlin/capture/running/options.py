"""The options of a capture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from drumlin.capture.changes import OnTruncate
from drumlin.capture.values.form import Form


class OnMaxWal(StrEnum):
    """The reaction if the WAL kept for the capture's slot exceeds the limit."""

    STOP = "stop"
    DROP = "drop"


@dataclass(frozen=True)
class CaptureOptions:
    """The options of one capture, as in `drumlin.capture.postgres`.

    `repr` omits the URL, which may hold a password.
    """

    url: str
    name: str
    tables: tuple[str, ...]
    prefix: str
    partitions: int
    on_truncate: OnTruncate
    heartbeat_s: float
    max_wal_bytes: int | None
    on_max_wal: OnMaxWal
    form: Form
    is_failover: bool
    metrics_listener: str | None
    tell: Callable[[str], None]
    should_stop: Callable[[], bool]

    def __repr__(self) -> str:
        return f"<CaptureOptions {self.name!r}>"
