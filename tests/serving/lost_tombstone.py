"""A log whose cleaner has removed a tombstone that a store has not read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from drumlin.client.client import Client
from drumlin.serving.moments import Moment
from rig.data.compacted_topic import COMPACTED, await_clean
from rig.waiting import wait_until

#: The state after `lose`.
LEFT: Mapping[bytes, bytes] = {b"b": b"2", b"c": b"x" * 2000}


def create(client: Client, topic: str, *, tombstones_stay: bool) -> None:
    """A topic of one partition, with values of the keys `a` and `b`."""
    retention_ms = "3600000" if tombstones_stay else "0"
    client.create_topic(topic, 1, configs=COMPACTED | {"delete.retention.ms": retention_ms})
    client.append([{"key": "a", "value": "1"}, {"key": "b", "value": "2"}], topic)


def lose(client: Client, topic: str, data: Path, *, tombstones_stay: bool) -> None:
    """Delete `a`, and have the log cleaned: records are missing, if not all tombstones."""
    client.append([{"key": "a", "value": None}], topic)

    def fill() -> bool:
        """Add segments, so that the cleaner goes on; returns whether the tombstone is gone."""
        for _ in range(30):
            client.append([{"key": "b", "value": "2"}, {"key": "c", "value": "x" * 2000}], topic)
        await_clean(data, topic)
        return b"a" not in client.read(topic).column("key").to_pylist()

    if tombstones_stay:
        assert not fill()
    else:
        wait_until(fill, "the tombstone to be gone")


def of_another_machine() -> str:
    """A moment by another clock, which is ahead of this machine's."""
    return str(Moment("of another boot", 1, Moment.now().wall_ms + 86_400_000))
