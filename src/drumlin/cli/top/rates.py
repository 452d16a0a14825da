"""Two looks become rows with rates. Functions of looks alone, without I/O or a clock."""

from __future__ import annotations

import dataclasses
import enum
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from drumlin.cli.top.look import Look, OwnLook
from drumlin.cli.top.own_metrics import own_row
from drumlin.cli.topics.compaction import status_row
from drumlin.client.topic_partition import TopicPartition

Row = dict[str, Any]

#: Groups commit every few seconds: rates over less than that would jump between nothing and much.
WINDOW_S: Final = 10.0


class View(enum.StrEnum):
    """The views, in the order of their keys."""

    TOPICS = "topics"
    PARTITIONS = "partitions"
    GROUPS = "groups"
    BROKERS = "brokers"
    CLEANER = "cleaner"


@dataclass(frozen=True, slots=True)
class Picture:
    """All rows of a look. Rates are None in the first look, and where something was made anew."""

    seconds: float | None  # the time over which the rates are
    cluster_id: str | None
    totals: Row
    topics: list[Row]
    partitions: list[Row]
    groups: list[Row]
    brokers: list[Row]
    own: list[Row] = field(default_factory=list)
    cleaner: list[Row] = field(default_factory=list)

    def rows(self, view: View) -> list[Row]:
        found: list[Row] = getattr(self, view.value)
        return found

    def as_json(self) -> Row:
        return {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}


class Looks:
    """The looks of the last seconds, of which the first and the last make the rates."""

    def __init__(self) -> None:
        self._looks: deque[Look] = deque()

    def add(self, look: Look) -> Picture:
        """The picture after this look."""
        looks = self._looks
        looks.append(look)
        while len(looks) > 2 and looks[1].at_s <= look.at_s - WINDOW_S:
            looks.popleft()
        return picture(looks[0] if len(looks) > 1 else None, look)


def picture(before: Look | None, now: Look) -> Picture:
    """What has happened between two looks."""
    seconds = None if before is None else now.at_s - before.at_s
    partitions = [*_partitions(before, now, seconds)]
    sent = _sent(before, now)
    topics = _topics(now, partitions, sent)
    groups = [*_groups(before, now, seconds)]
    brokers = [*_brokers(now, partitions)]
    earlier = {each.where: each for each in before.own} if before else {}
    own, own_looks = [], [*_told_once(now.own)]
    for each in own_looks:
        then = earlier.get(each.where, each)
        own.append(
            own_row(each.where, then.figures, each.figures, each.at_s - then.at_s)
            | {"error": each.error}
        )
    cleaner = [status_row(dict(row)) for each in own_looks for row in each.cleaner]
    totals = {
        "brokers": len(now.brokers),
        "topics": len(topics),
        "partitions": len(partitions),
        "groups": len(groups),
        "records_in_per_s": _total(partitions, "records_in_per_s", seconds),
        "bytes_in_per_s": _total(partitions, "bytes_in_per_s", seconds),
        "bytes_out_per_s": None if sent is None else sum(sent.values()),
        "lag": sum(each["lag"] for each in groups),
        "offline": sum(each["offline"] for each in topics),
        "under_replicated": sum(each["under_replicated"] for each in topics),
        "offline_log_dirs": sum(each["offline_log_dirs"] for each in brokers),
        "silent_brokers": sorted(now.silent),
    }
    return Picture(
        seconds, now.cluster_id, totals, topics, partitions, groups, brokers, own, cleaner
    )


def rate(before: int | None, now: int | None, seconds: float | None) -> float | None:
    """What was added per second; None if that is not known, as after something was removed."""
    if before is None or now is None or not seconds or now < before:
        return None
    return (now - before) / seconds


def _partitions(before: Look | None, now: Look, seconds: float | None) -> Iterable[Row]:
    sizes, earlier_sizes = _sizes(now), {} if before is None else _sizes(before)
    earlier_ends: Mapping[TopicPartition, int] = {} if before is None else before.ends
    for topic in now.topics.values():
        is_same = before is None or _is_same(before, topic.name, now)
        for each in topic.partitions.values():
            place = TopicPartition(topic.name, each.index)
            end = now.ends.get(place)
            size = sizes.get((each.leader, *place))
            then = earlier_ends.get(place) if is_same else None
            size_then = earlier_sizes.get((each.leader, *place)) if is_same else None
            yield {
                "topic": topic.name,
                "partition": each.index,
                "records_in_per_s": rate(then, end, seconds),
                "bytes_in_per_s": rate(size_then, size, seconds),
                "size_bytes": size,
                "end_offset": end,
                "leader": each.leader,
                "replicas": list(each.replicas),
                "isr": list(each.isr),
                "state": _state(now, each),
                "is_internal": topic.is_internal,
            }


def _is_same(before: Look, topic: str, now: Look) -> bool:
    """Whether a topic is the one of the earlier look, not another of its name."""
    then = before.topics.get(topic)
    return then is not None and then.topic_id == now.topics[topic].topic_id


def _state(now: Look, partition: Any) -> str:
    if partition.leader not in now.brokers:
        return "offline"
    return "under-replicated" if len(partition.isr) < len(partition.replicas) else "in sync"


def _sizes(look: Look) -> dict[tuple[int, str, int], int]:
    """The sizes of all replicas, by broker, topic and partition."""
    return {
        (each.broker, *place): size for each in look.log_dirs for place, size in each.sizes.items()
    }


def _sent(before: Look | None, now: Look) -> dict[str, float] | None:
    """Bytes to consumers per second, by topic; None unless all brokers have told it twice.

    Leaders count them, and nothing but their own metrics tells. So they are known of all topics,
    or else of none: any broker may lead a partition of any topic.
    """
    told = {each.where: each for each in _told_once(now.own) if each.error is None}
    earlier = {} if before is None else {e.where: e for e in before.own if e.error is None}
    brokers = sum(len(each.brokers) or 1 for each in told.values())
    if not told or brokers < len(now.brokers) or not told.keys() <= earlier.keys():
        return None
    rates: dict[str, float] = {}
    for where, each in told.items():
        then = earlier[where]
        for topic, sent in each.sent.items():
            gained = sent - then.sent.get(topic, 0.0)
            if gained < 0 or each.at_s <= then.at_s:  # it was started anew
                return None
            rates[topic] = rates.get(topic, 0.0) + gained / (each.at_s - then.at_s)
    return rates


def _told_once(own: Iterable[OwnLook]) -> Iterable[OwnLook]:
    """Without those of brokers that are named twice, such as by a name and by its address."""
    known: set[str] = set()
    for each in own:
        if not each.brokers & known:
            known |= each.brokers
            yield each


def _topics(now: Look, partitions: Iterable[Row], sent: Mapping[str, float] | None) -> list[Row]:
    found: dict[str, Row] = {
        topic.name: {
            "topic": topic.name,
            "partitions": len(topic.partitions),
            "records_in_per_s": None,
            "bytes_in_per_s": None,
            "bytes_out_per_s": None if sent is None else sent.get(topic.name),
            "size_bytes": None,
            "offline": 0,
            "under_replicated": 0,
            "is_internal": topic.is_internal,
        }
        for topic in now.topics.values()
    }
    for each in partitions:
        row = found[each["topic"]]
        for column in ("records_in_per_s", "bytes_in_per_s", "size_bytes"):
            if each[column] is not None:
                row[column] = (row[column] or 0) + each[column]
        row["offline"] += each["state"] == "offline"
        row["under_replicated"] += each["state"] == "under-replicated"
    return [*found.values()]


def _groups(before: Look | None, now: Look, seconds: float | None) -> Iterable[Row]:
    for group in now.groups:
        positions = now.positions.get(group.group, {})
        earlier = {} if before is None else before.positions.get(group.group, {})
        lag = sum(max(now.ends[p] - o, 0) for p, o in positions.items() if p in now.ends)
        known = [p for p in positions if p in earlier and before and _in_both(before, now, p)]
        read = arrived = None
        if seconds and known and before:
            read = sum(positions[p] - earlier[p] for p in known) / seconds
            arrived = sum(now.ends[p] - before.ends[p] for p in known) / seconds
        yield {
            "group": group.group,
            "state": group.state,
            "type": group.type,
            "topics": len({p.topic for p in positions}),
            "partitions": len(positions),
            "lag": lag,
            "lag_per_s": None if read is None or arrived is None else arrived - read,
            "read_per_s": read,
            "behind_ms": round(lag / arrived * 1000) if arrived and arrived > 0 else None,
        }


def _in_both(before: Look, now: Look, place: TopicPartition) -> bool:
    return place in before.ends and place in now.ends


def _brokers(now: Look, partitions: Iterable[Row]) -> Iterable[Row]:
    found: dict[int, Row] = {
        node_id: {
            "broker": node_id,
            "address": str(address),
            "is_controller": node_id == now.controller,
            "leaders": 0,
            "replicas": 0,
            "records_in_per_s": None,
            "bytes_in_per_s": None,
            "size_bytes": None,
            "free_bytes": None,
            "offline_log_dirs": 0,
        }
        for node_id, address in sorted(now.brokers.items())
    }
    for each in partitions:
        for node_id in each["replicas"]:
            if node_id in found:
                found[node_id]["replicas"] += 1
        row = found.get(each["leader"])
        if row is not None:
            row["leaders"] += 1
            for column in ("records_in_per_s", "bytes_in_per_s"):
                if each[column] is not None:
                    row[column] = (row[column] or 0) + each[column]
    for log_dir in now.log_dirs:
        row = found.get(log_dir.broker)
        if row is not None:
            row["offline_log_dirs"] += log_dir.error is not None
            row["size_bytes"] = (row["size_bytes"] or 0) + sum(log_dir.sizes.values())
            if log_dir.usable_bytes is not None:  # of several, the one that is full first
                free = row["free_bytes"]
                row["free_bytes"] = min(free or log_dir.usable_bytes, log_dir.usable_bytes)
    yield from found.values()


def _total(rows: Iterable[Row], column: str, seconds: float | None) -> float | None:
    return None if seconds is None else sum(row[column] or 0.0 for row in rows)
