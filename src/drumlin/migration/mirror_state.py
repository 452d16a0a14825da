"""What a mirror remembers across its own end: a JSON file that is replaced as a whole.

It is written before offsets are written anywhere, so that a mirror which is killed knows its own
writes from those of consumers. After a power failure it may be an older one: then some offsets
look changed in both stores, and timestamps decide.
"""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any, Final, TextIO

from drumlin.client.offsets import TopicPartition
from drumlin.migration.errors import StoreError
from drumlin.migration.reconcile import Agreement, Node

_VERSION: Final = 1


class MirrorState:
    """The agreements of all mirrored groups. One mirror at a time may have a file."""

    def __init__(self, path: Path, cluster_id: str | None) -> None:
        """
        Raises:
            StoreError: another mirror has it, it is of another cluster, or no such file at all.
            OSError: it cannot be read or its folder cannot be made.
        """
        self.path = path
        self._cluster_id = cluster_id
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(path)
        self._groups: dict[str, dict[TopicPartition, Agreement]] = {}
        self._saved = ""
        try:
            if path.exists():
                self._load()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._lock.close()

    def of(self, group: str, place: TopicPartition) -> Agreement:
        """What is remembered of a partition; to be changed in place."""
        return self._groups.setdefault(group, {}).setdefault(place, Agreement())

    def save(self) -> None:
        """Write what has changed since the last time."""
        text = json.dumps(self._as_json(), indent=1)
        if text == self._saved:
            return
        draft = self.path.with_name(f".{self.path.name}.new")
        draft.write_text(text, "utf-8")
        draft.replace(self.path)
        self._saved = text

    def _as_json(self) -> dict[str, Any]:
        return {
            "version": _VERSION,
            "cluster_id": self._cluster_id,
            "offsets": [
                {
                    "group": group,
                    "topic": topic,
                    "partition": partition,
                    "agreed": each.offset,
                    "node_version": each.version,
                    "sent_to_zookeeper": sorted(each.sent_to_zookeeper),
                    "sent_to_broker": sorted(each.sent_to_broker),
                }
                for group, places in self._groups.items()
                for (topic, partition), each in places.items()
            ],
        }

    def _load(self) -> None:
        try:
            found = json.loads(self.path.read_text("utf-8"))
            version, cluster_id = found["version"], found["cluster_id"]
            for each in found["offsets"]:
                agreement = self.of(each["group"], (each["topic"], each["partition"]))
                agreement.offset, agreement.version = each["agreed"], each["node_version"]
                agreement.sent_to_zookeeper.update(Node(*n) for n in each["sent_to_zookeeper"])
                agreement.sent_to_broker.update(each["sent_to_broker"])
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{self.path} is not what a mirror remembers: {error}") from None
        if version != _VERSION or cluster_id != self._cluster_id:
            raise StoreError(f"{self.path} is of a mirror with another cluster: {cluster_id}")


def _lock(path: Path) -> TextIO:
    lock = path.with_name(f"{path.name}.lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise StoreError(f"another mirror runs with {path}") from None
    return lock
