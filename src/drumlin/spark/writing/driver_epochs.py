"""Keeps the driver's epoch of a sink's last commit in this process, for the next commit.

The epoch may be out of date; the commit that uses it finds that out: see `driver.commit`.
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
    """Take the epoch that the sink's last commit has left; only one caller gets it."""
    with _lock:
        return _held.get(client, {}).pop((sink, decision_topic), None)


def leave(client: Client, sink: str, decision_topic: str, held: Held) -> None:
    """Keep an epoch for the sink's next commit. Sinks with the oldest commits are dropped."""
    with _lock:
        epochs = _held.setdefault(client, {})
        forgotten = [epochs.pop((sink, decision_topic), None)]
        epochs[sink, decision_topic] = held
        while len(epochs) > _SINKS_MAX:
            forgotten.append(epochs.pop(next(iter(epochs))))
    for each in forgotten:
        if each is not None:  # an empty transaction sends nothing, but the client would keep it
            with contextlib.suppress(ClientError):
                each.transaction.abort()
