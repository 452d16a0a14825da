"""The history of a table: what was known of each aircraft at the end of each month.

The topic of flights is keyed by aircraft, so at any moment it stands for a table: the last flight
of each. `client.snapshot(at=...)` gives that table as it was.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from drumlin import Client

_MONTHS = np.arange("2013-01", "2014-01", dtype="datetime64[M]")
#: Timestamps of records are in milliseconds.
_BEFORE = timedelta(milliseconds=1)


class AsOf(NamedTuple):
    """The table at a moment: `aircraft[m]` is how many had flown last in the month m (0-based)."""

    at: datetime
    aircraft: np.ndarray


def history(client: Client, topic: str) -> list[AsOf]:
    """The table as of the end of each month, in UTC."""
    found = []
    for month in _MONTHS:
        at = (month + 1).astype("datetime64[s]").item().replace(tzinfo=UTC) - _BEFORE
        table = client.snapshot(topic, at=at, columns=["timestamp"])
        found.append(AsOf(at, _by_month(table)))
    return found


def _by_month(table: pa.Table) -> np.ndarray:
    times = table["timestamp"].to_numpy().astype("datetime64[M]")
    return np.bincount((times - _MONTHS[0]).astype(np.int64), minlength=len(_MONTHS))
