"""The limit of the WAL that the server keeps for a capture's slot.

While a capture cannot write, is paused or is slow, the server's disk fills up. At the limit the
capture ends with an error; optionally it first drops its slot, so that the server can remove the
WAL.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, Final

from drumlin.capture.database import catalog, connections
from drumlin.capture.errors import CaptureRefused, DatabaseLost
from drumlin.capture.log.names import Names
from drumlin.capture.running.options import CaptureOptions, OnMaxWal

if TYPE_CHECKING:
    import psycopg

_OTHER_ENDS_S: Final = 10.0
_LOOK_S: Final = 0.1


class TooMuchWal(Exception):
    """The server keeps more WAL than the limit allows."""

    def __init__(self, kept_bytes: int) -> None:
        super().__init__(kept_bytes)
        self.kept_bytes = kept_bytes


def check(connection: psycopg.Connection[Any], options: CaptureOptions) -> None:
    """
    Raises:
        TooMuchWal: the limit is exceeded.
        DatabaseLost, DatabaseRefused: the database cannot be queried.
    """
    if options.max_wal_bytes is not None:
        kept_bytes = catalog.kept_wal_bytes(connection, Names(options.name).slot)
        if kept_bytes is not None and kept_bytes > options.max_wal_bytes:
            raise TooMuchWal(kept_bytes)


def refusal(options: CaptureOptions, kept_bytes: int) -> CaptureRefused:
    """Drop the slot, if the options say so; returns the error that ends the capture.

    Raises:
        DatabaseLost, DatabaseRefused: the slot is not dropped.
    """
    name = Names(options.name).slot
    why = f"the server keeps {kept_bytes:,} bytes of WAL for slot {name}, more than --max-wal-bytes"
    if options.on_max_wal is not OnMaxWal.DROP:
        return CaptureRefused(
            f"{why}, and more and more until the capture is started again with a higher one and "
            "has caught up, or `drumlin capture remove` has dropped the slot"
        )
    with contextlib.closing(connections.connect(options.url)) as connection:
        end_reader(connection, name)
        catalog.rows(connection, "SELECT pg_drop_replication_slot(%s)", (name,))
    return CaptureRefused(
        f"{why}: the slot is dropped, and with it what the topics do not have yet: `drumlin "
        "capture remove`, then start again: the tables are read again, and the topics get what "
        "differs"
    )


def end_reader(connection: psycopg.Connection[Any], slot_name: str) -> None:
    """End the connection that reads from the slot, if there is one.

    Raises:
        DatabaseLost, DatabaseRefused: the connection cannot be ended.
    """
    deadline = time.monotonic() + _OTHER_ENDS_S
    while True:
        slot = catalog.slot(connection, slot_name)
        if slot is None or slot.active_pid is None:
            return
        if time.monotonic() > deadline:
            raise DatabaseLost(f"slot {slot.name} is in use by process {slot.active_pid}")
        catalog.rows(connection, "SELECT pg_terminate_backend(%s)", (slot.active_pid,))
        time.sleep(_LOOK_S)
