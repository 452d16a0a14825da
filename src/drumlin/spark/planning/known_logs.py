"""A running query's knowledge of its logs, and its judgement of new answers. Pure.

A cluster's answer about a log may be stale: a lagging broker leaves out a topic, or reports an end
offset that was passed long ago. Or it may be right, and the log is a new one, because its topic
was deleted and recreated. The topic id tells the two apart (KIP-516), or the leader epoch where
there are no ids. If neither can, the answer is a doubt, and the cluster is asked again.

None of this outlives the process. The checkpoint holds offsets only, in the form of Spark's Kafka
source, so after a restart the first look has nothing else to go by. With the option
`checkpointTopicIds` the checkpoint holds the topic ids, too, which the query recalls then.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from drumlin.spark.options.offsets import TopicPartition


class LogIdentity(NamedTuple):
    """The identity of a log: the topic id, if the broker knows ids, and the leader epoch."""

    topic_id: str | None
    leader_epoch: int  # -1 if the broker does not report it


class LogView(NamedTuple):
    """One partition as the cluster shows it."""

    topic_id: str | None
    leader_epoch: int
    end_offset: int


@dataclass(slots=True)
class Findings:
    """The findings of an answer: each partition is in exactly one of the fields."""

    ends: dict[TopicPartition, int] = field(default_factory=dict)  # of known and new partitions
    away: set[TopicPartition] = field(default_factory=set)  # not shown, perhaps only for now
    shorter: set[TopicPartition] = field(default_factory=set)  # end before the query's position
    recreated: dict[TopicPartition, int] = field(default_factory=dict)  # a new log, and its end
    gone: set[TopicPartition] = field(default_factory=set)  # proven to be deleted

    @property
    def doubts(self) -> set[TopicPartition]:
        """The partitions that should be checked again."""
        return self.away | self.shorter


class KnownLogs:
    """The logs of one query, since this process first looked at them."""

    def __init__(self) -> None:
        self._logs: dict[TopicPartition, LogIdentity] = {}
        self._topic_ids: dict[str, str | None] = {}
        self._ids_of_before: set[str] = set()
        # The query's position in the old log, until the query has moved on to the new one.
        self._recreated: dict[TopicPartition, int] = {}

    @property
    def topic_ids(self) -> Mapping[str, str | None]:
        return self._topic_ids

    def remember(self, shown: Mapping[TopicPartition, LogIdentity | LogView]) -> None:
        """Adopt an answer of the cluster that is trusted."""
        for key, log in shown.items():
            if log.topic_id in self._ids_of_before:
                continue
            if self._is_other_topic(key.topic, log.topic_id):
                self.forget(key.topic)
            self._topic_ids[key.topic] = log.topic_id or self._topic_ids.get(key.topic)
            self._logs[key] = LogIdentity(log.topic_id, log.leader_epoch)

    def recall(self, topic_ids: Mapping[str, str]) -> None:
        """Adopt the ids known before a restart; what this process has seen takes precedence."""
        for topic, topic_id in topic_ids.items():
            if topic not in self._topic_ids and topic_id not in self._ids_of_before:
                self._topic_ids[topic] = topic_id

    def forget(self, topic: str) -> None:
        """Note that the topic was deleted; a broker that still shows it is stale."""
        topic_id = self._topic_ids.pop(topic, None)
        if topic_id is not None:
            self._ids_of_before.add(topic_id)
        for key in [key for key in self._logs if key.topic == topic]:
            del self._logs[key]

    def judge(
        self, begin: Mapping[TopicPartition, int], shown: Mapping[TopicPartition, LogView]
    ) -> Findings:
        """Judge the answer `shown` for a query whose position is `begin`."""
        believed = {k: log for k, log in shown.items() if log.topic_id not in self._ids_of_before}
        new_ids = {key.topic: log.topic_id for key, log in believed.items()}
        findings = Findings({key: believed[key].end_offset for key in believed.keys() - begin})
        for key, position in begin.items():
            log = believed.get(key)
            if log is None:
                # A topic never loses partitions, but a recreated topic may have fewer.
                is_gone = self._is_other_topic(key.topic, new_ids.get(key.topic))
                (findings.gone if is_gone else findings.away).add(key)
            elif self._recreated.get(key) == position or self._is_other_topic(
                key.topic, log.topic_id
            ):
                findings.recreated[key] = log.end_offset
            elif log.end_offset < position:
                findings.shorter.add(key)
            else:
                findings.ends[key] = log.end_offset
        return findings

    def is_recreated(self, key: TopicPartition, log: LogView) -> bool:
        """Whether a log that ends before the query's position must be a new one.

        The leader epoch of a partition never goes back. And a log that never changed its leader
        was never truncated. So a log of epoch 0 that ends before an offset that it once had is a
        new log. That rule is needed only for the first look after a restart: later the topic id,
        or at least the epoch, is known.
        """
        known = self._logs.get(key)
        if known is None:
            return self._topic_ids.get(key.topic) is None and log.leader_epoch == 0
        if known.topic_id is not None:
            return False  # with another id it would not count as shorter
        return 0 <= log.leader_epoch < known.leader_epoch

    def keep_positions(self, recreated: Mapping[TopicPartition, int]) -> None:
        """Keep the query's positions in logs that were recreated, until the query has moved on."""
        self._recreated = dict(recreated)

    def _is_other_topic(self, topic: str, topic_id: str | None) -> bool:
        known = self._topic_ids.get(topic)
        return known is not None and topic_id is not None and topic_id != known


def end_in_new_log(position: int, first_offset: int, end_offset: int) -> int:
    """The end of a batch in a recreated log, if the query was at `position` in the old log.

    In the checkpoint, an end below the start marks such a batch: it is read from the new log's
    start. So a query that repeats the batch after a restart reads the same records.
    """
    return min(end_offset, position - 1) if first_offset < position else end_offset


def refetches(
    begin: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
) -> Collection[TopicPartition]:
    """The partitions whose log was recreated, according to the offsets in the checkpoint."""
    return {key for key, offset in end.items() if key in begin and offset < begin[key]}
