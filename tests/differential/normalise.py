"""What two brokers may freely choose is replaced by names, so that the rest compares exactly.

Ids become `<producer_id 1>`, `<uuid 2>` in the order in which they first appear: two brokers that
give the same id twice, or two different ones, still have to agree about that.
"""

from __future__ import annotations

import re
import time
import uuid
from typing import Any

from differential.now import NOW
from rig.data.batches import describe_batches

#: Chosen by the broker; the listed values mean "none" and are compared as they are.
_CHOSEN = {
    "cluster_id": (None, ""),
    "leader": (None, ""),
    "log_dir": (None, ""),
    "member_id": (None, ""),
    "ongoing_txn_producer_id": (-1,),
    "producer_id": (-1,),
    "session_id": (0,),
}
_MOMENTS = frozenset({"last_timestamp", "log_append_time", "transaction_start_time"})
_SENTENCES = frozenset(
    {"error_message", "acknowledge_error_message", "batch_index_error_message", "documentation"}
)
_AMOUNTS = frozenset({"finalized_features_epoch", "total_bytes", "usable_bytes"})
_LEEWAY_MS = 600_000
_TIMESTAMP_TYPE_MASK = 0x08
_CONTROL_MASK = 0x20
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[A-Za-z0-9_-]{22}$")


class Normaliser:
    """One per script and broker: it remembers which id it has given which name."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._names: dict[Any, str] = {}
        self._counts: dict[str, int] = {}
        self._own: set[Any] = set()

    def know(self, value: Any, name: str) -> None:
        """Give an id that the broker has chosen its name beforehand."""
        self._names[value] = f"<{name}>"

    def keep(self, value: Any) -> None:
        """The script has chosen this value itself: it is compared as it is."""
        self._own.add(value)

    def __call__(self, tree: Any, field: str = "") -> Any:
        if isinstance(tree, dict):
            return self._structure(tree)
        if isinstance(tree, list) and field == "responses" and _is_fetched(tree):
            tree = self._fetched(tree)
        if isinstance(tree, list) and field == "acquired_records":
            return _by_offset(tree)
        if isinstance(tree, list):
            return [self(each, field) for each in tree]
        if field == "records":
            return tree if tree is None else self._batches(tree)
        if isinstance(tree, uuid.UUID):
            return self._name("uuid", tree)
        return self._scalar(tree, field)

    def _fetched(self, topics: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """A topic's partitions together: Kafka tells those with errors apart from the others."""
        merged: dict[Any, dict[str, Any]] = {}
        for each in topics:
            topic = each.get("topic") or each.get("topic_id")
            known = merged.setdefault(topic, each | {"partitions": []})
            known["partitions"] = known["partitions"] + each["partitions"]
        return list(merged.values())

    def _structure(self, tree: dict[str, Any]) -> dict[str, Any]:
        return {key: self(value, key) for key, value in tree.items()}

    def _scalar(self, value: Any, field: str) -> Any:
        if field in _CHOSEN and value not in _CHOSEN[field] and value not in self._own:
            return self._name("member_id" if field == "leader" else field, value)
        if field in _SENTENCES:
            return "<a sentence>" if value else value
        if field in _MOMENTS and value is not None:
            return _moment(value)
        if field in _AMOUNTS:
            return "<some amount>" if value > 0 else value
        if field == "port" and value == self._port:
            return "<its port>"
        return value

    def _batches(self, data: bytes) -> list[dict[str, Any]]:
        batches = describe_batches(data)
        for each in batches:
            if each.get("attributes", 0) & _TIMESTAMP_TYPE_MASK:
                each["max_timestamp"] = _moment(each["max_timestamp"])
            if each.get("attributes", 0) & _CONTROL_MASK:
                each["max_timestamp"] = _moment(each["max_timestamp"])
                for record in each["records"]:
                    record["timestamp"] = _moment(record["timestamp"])
            if each.get("producer_id", -1) != -1:
                each["producer_id"] = self._scalar(each["producer_id"], "producer_id")
        return batches

    def _name(self, kind: str, value: Any) -> str:
        if value not in self._names:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            shape = _UUID.sub("uuid", value) if isinstance(value, str) else ""
            shape = "" if kind in ("cluster_id", "log_dir") else shape
            self._names[value] = f"<{kind} {self._counts[kind]}{shape and ' like '}{shape}>"
        return self._names[value]


def _by_offset(acquired: list[dict[str, int]]) -> dict[int, int]:
    """Delivery count by offset: how neighbours are put together is the broker's choice."""
    return {
        offset: each["delivery_count"]
        for each in acquired
        for offset in range(each["first_offset"], each["last_offset"] + 1)
    }


def _is_fetched(topics: list[Any]) -> bool:
    return all("partitions" in each for each in topics)


def _moment(timestamp_ms: int) -> Any:
    """A broker's own reading of the clock is as good as another's, at any time of this run."""
    is_ours = NOW - _LEEWAY_MS < timestamp_ms < time.time() * 1000 + _LEEWAY_MS
    return "<now>" if is_ours else timestamp_ms
