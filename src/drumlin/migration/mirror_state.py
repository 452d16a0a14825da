"""The persistent state of a mirror: a file of JSON lines, in which a partition's last line counts.

A write to a store is recorded before it is sent, so that after being killed a mirror can tell its
own writes from those of consumers. The file is never synced, so it may be out of date after a power
failure; then some offsets seem to have changed in both stores, and timestamps decide.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TextIO

from drumlin.client.topic_partition import TopicPartition
from drumlin.migration.reconcile import Agreement, Node
from drumlin.migration.store_error import StoreError

_VERSION: Final = 1
#: The file is rewritten when it has this many times the necessary lines.
_LINES_FOR_EACH: Final = 20
_LINES_MIN: Final = 1_000


class MirrorState:
    """The agreed offsets of all mirrored groups. Only one mirror at a time may use a file."""

    def __init__(self, path: Path, cluster_id: str | None) -> None:
        """Lock and load the file, or create it.

        Raises:
            StoreError: another mirror uses the file, or it belongs to another cluster, or is
                malformed.
            OSError: the file cannot be read, or its folder cannot be created.
        """
        self.path = path
        self._cluster_id = cluster_id
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(path)
        self._agreements: dict[tuple[str, TopicPartition], Agreement] = {}
        self._changed: set[tuple[str, TopicPartition]] = set()
        self._lines = 0
        self._sink: TextIO | None = None
        try:
            if path.exists():
                self._load()
            self._write_anew()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._sink is not None:
            self._sink.close()
        self._lock.close()

    def of(self, group: str, place: TopicPartition) -> Agreement:
        """The state of a partition; a caller that changes it must call `changed`."""
        return self._agreements.setdefault((group, place), Agreement())

    def changed(self, group: str, place: TopicPartition) -> None:
        """Mark a partition for writing by the next `save`."""
        self._changed.add((group, place))

    def save(self) -> None:
        """Write the partitions that have changed since the last call."""
        if not self._changed:
            return
        if self._lines > max(_LINES_MIN, _LINES_FOR_EACH * len(self._agreements)):
            self._write_anew()
            return
        assert self._sink is not None
        self._sink.write("".join(self._line(*each) for each in sorted(self._changed)))
        self._sink.flush()
        self._lines += len(self._changed)
        self._changed.clear()

    # -- the file --------------------------------------------------------------------------

    def _write_anew(self) -> None:
        new = self.path.with_name(f".{self.path.name}.new")
        with new.open("w", encoding="utf-8") as sink:
            sink.write(json.dumps({"version": _VERSION, "cluster_id": self._cluster_id}) + "\n")
            sink.writelines(self._line(*each) for each in self._agreements)
        new.replace(self.path)
        if self._sink is not None:
            self._sink.close()
        self._sink = self.path.open("a", encoding="utf-8")
        self._lines = len(self._agreements)
        self._changed.clear()

    def _line(self, group: str, place: TopicPartition) -> str:
        each = self._agreements[group, place]
        fields = {
            "group": group,
            "topic": place[0],
            "partition": place[1],
            "agreed": each.offset,
            "node_version": each.version,
            "sent_to_zookeeper": sorted(each.sent_to_zookeeper),
            "sent_to_broker": sorted(each.sent_to_broker),
        }
        return json.dumps(fields) + "\n"

    def _load(self) -> None:
        try:
            lines = _complete_lines(self.path)
            head = next(lines, {})
            version, cluster_id = head["version"], head["cluster_id"]
            for each in lines:
                place = TopicPartition(each["topic"], each["partition"])
                self._agreements[each["group"], place] = Agreement(
                    each["agreed"],
                    each["node_version"],
                    {Node(*node) for node in each["sent_to_zookeeper"]},
                    set(each["sent_to_broker"]),
                )
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{self.path} is not the state of a mirror: {error}") from None
        if version != _VERSION or cluster_id != self._cluster_id:
            raise StoreError(f"{self.path} belongs to a mirror of another cluster, {cluster_id}")


def _complete_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of the file, without a partial last line, which a killed mirror may leave."""
    with path.open(encoding="utf-8") as source:
        for line in source:
            if line.endswith("\n"):
                yield json.loads(line)


def _lock(path: Path) -> TextIO:
    lock = path.with_name(f"{path.name}.lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise StoreError(f"another mirror runs with {path}") from None
    return lock
