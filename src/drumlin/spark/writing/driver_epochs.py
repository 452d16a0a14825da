"""Keeps what a sink's last commit in this process leaves to the next one.

It may be out of date, which shows when it is used: see `driver.commit`.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from drumlin import Transaction
from drumlin.client.client import Client
from drumlin.client.errors import ClientError
from drumlin.spark.writing.protocol.state import DriverEpoch

_SINKS_MAX: Final = 100


class Held(NamedTuple):
    """An epoch of the driver, and the transaction in which it writes next."""

    epoch: DriverEpoch
    transaction: Transaction


_held: WeakKeyDictionary[Client, dict[tuple[str, str], Held]] = WeakKeyDictionary()
_lock = threading.Lock()


def take(client: Client, sink: str, decision_topic: str) -> Held | None:
    """Take what the sink's last commit has left; only one caller gets it."""
    with _lock:
        return _held.get(client, {}).pop((sink, decision_topic), None)


def leave(client: Client, sink: str, decision_topic: str, held: Held) -> None:
    """Leave it for the sink's next commit. Sinks without a commit for the longest are dropped."""
    with _lock:
        epochs = _held.setdefault(client, {})
        forgotten = [epochs.pop((sink, decision_topic), None)]
        epochs[sink, decision_topic] = held
        while len(epochs) > _SINKS_MAX:
            forgotten.append(epochs.pop(next(iter(epochs))))
    for each in forgotten:
        if each is not None:  # nothing is in it, so nothing is sent; but the client keeps it
            with contextlib.suppress(ClientError):
                each.transaction.abort()
