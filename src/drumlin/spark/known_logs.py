"""What a running query knows of the logs that it reads, and how it judges a new answer. Pure.

A cluster's answer about a log may be wrong: a broker that is behind leaves a topic out or names
an end that has been passed. And it may be right that a log is another one now, as its topic was
deleted and created anew. Told apart they are by the topic's id (KIP-516), by the leader epoch
where there are no ids, and by asking again: what cannot be told at once is a doubt.

Nothing of this outlives the process. The checkpoint has offsets only, in the form of Spark's
Kafka source, and so the first look after a restart has nothing but them to go by.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from drumlin.spark.offsets import TopicPartition


class LogIdentity(NamedTuple):
    """Which log it is: the topic's id where the broker knows ids, and how often it was led anew."""

    topic_id: str | None
    leader_epoch: int  # -1 where the broker does not tell


class LogView(NamedTuple):
    """One partition as the cluster shows it."""

    topic_id: str | None
    leader_epoch: int
    end_offset: int


@dataclass(slots=True)
class Findings:
    """What an answer says of each partition: each is in one of these."""

    ends: dict[TopicPartition, int] = field(default_factory=dict)  # known ones, and new ones
    away: set[TopicPartition] = field(default_factory=set)  # not shown; maybe only not now
    shorter: set[TopicPartition] = field(default_factory=set)  # they end before what was read
    made_anew: dict[TopicPartition, int] = field(default_factory=dict)  # another log; its end
    gone: set[TopicPartition] = field(default_factory=set)  # proven

    @property
    def doubts(self) -> set[TopicPartition]:
        """What should be asked again."""
        return self.away | self.shorter


class KnownLogs:
    """The logs of one query, from the first look of this process on."""

    def __init__(self) -> None:
        self._logs: dict[TopicPartition, LogIdentity] = {}
        self._topic_ids: dict[str, str | None] = {}
        self._ids_of_before: set[str] = set()
        # Where the query stood in the log of before, until it stands in the new one.
        self._made_anew: dict[TopicPartition, int] = {}

    @property
    def topic_ids(self) -> Mapping[str, str | None]:
        return self._topic_ids

    def remember(self, shown: Mapping[TopicPartition, LogIdentity | LogView]) -> None:
        """Take over what the cluster shows, once it is believed."""
        for key, log in shown.items():
            if log.topic_id in self._ids_of_before:
                continue
            if self._is_other_topic(key.topic, log.topic_id):
                self.forget(key.topic)
            self._topic_ids[key.topic] = log.topic_id or self._topic_ids.get(key.topic)
            self._logs[key] = LogIdentity(log.topic_id, log.leader_epoch)

    def forget(self, topic: str) -> None:
        """The topic was deleted; a broker that still shows it is behind."""
        topic_id = self._topic_ids.pop(topic, None)
        if topic_id is not None:
            self._ids_of_before.add(topic_id)
        for key in [key for key in self._logs if key.topic == topic]:
            del self._logs[key]

    def judge(
        self, begin: Mapping[TopicPartition, int], shown: Mapping[TopicPartition, LogView]
    ) -> Findings:
        """What `shown` says to a query that stands at `begin`."""
        believed = {k: log for k, log in shown.items() if log.topic_id not in self._ids_of_before}
        new_ids = {key.topic: log.topic_id for key, log in believed.items()}
        findings = Findings({key: believed[key].end_offset for key in believed.keys() - begin})
        for key, position in begin.items():
            log = believed.get(key)
            if log is None:
                # A topic keeps its partitions for life; one that was made anew may have fewer.
                is_gone = self._is_other_topic(key.topic, new_ids.get(key.topic))
                (findings.gone if is_gone else findings.away).add(key)
            elif self._made_anew.get(key) == position or self._is_other_topic(
                key.topic, log.topic_id
            ):
                findings.made_anew[key] = log.end_offset
            elif log.end_offset < position:
                findings.shorter.add(key)
            else:
                findings.ends[key] = log.end_offset
        return findings

    def is_made_anew(self, key: TopicPartition, log: LogView) -> bool:
        """Whether a log that is shorter than what was read of it must be another one.

        The leader epoch of a partition never goes back. And a log whose leader has never changed
        has never been cut, so that one of epoch 0 that ends before an offset that was its end
        once is a new log. That serves for the first look after a restart only: later the id, or
        at least the epoch, is known.
        """
        known = self._logs.get(key)
        if known is None:
            return self._topic_ids.get(key.topic) is None and log.leader_epoch == 0
        if known.topic_id is not None:
            return False  # with another id it would not be called shorter
        return 0 <= log.leader_epoch < known.leader_epoch

    def stands_before(self, made_anew: Mapping[TopicPartition, int]) -> None:
        """Keep where the query stands in logs that were made anew, until it has moved on."""
        self._made_anew = dict(made_anew)

    def _is_other_topic(self, topic: str, topic_id: str | None) -> bool:
        known = self._topic_ids.get(topic)
        return known is not None and topic_id is not None and topic_id != known


def end_in_new_log(position: int, first_offset: int, end_offset: int) -> int:
    """Where a batch ends in a log that was made anew, if the query stood at `position` before.

    An end below the start is how the checkpoint says it: the batch begins where the log begins.
    A query that repeats the batch after a restart reads just the same.
    """
    return min(end_offset, position - 1) if first_offset < position else end_offset


def begins_anew(
    begin: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
) -> Collection[TopicPartition]:
    """The partitions whose log was made anew, by what the checkpoint says of a batch."""
    return {key for key, offset in end.items() if key in begin and offset < begin[key]}
