"""Decides how far a streaming query may advance: the offsets that Spark gets and journals.

A loss must be found here, before it reaches the checkpoint: a query that fails here resumes from
its old position, once the cluster shows everything again. Doubtful answers are requested again.
A partition that the cluster does not show keeps its position and is never taken for a new one.
A position goes back only in a log that is proven to be a new one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from drumlin.spark.options.offsets import TopicPartition
from drumlin.spark.options.options import SourceOptions
from drumlin.spark.planning.cluster import Cluster, looks
from drumlin.spark.planning.data_loss import RECREATED, report_data_loss
from drumlin.spark.planning.known_logs import (
    Findings,
    KnownLogs,
    LogIdentity,
    LogView,
    end_in_new_log,
)

_logger = logging.getLogger(__name__)

Offsets = dict[TopicPartition, int]


class Reach(NamedTuple):
    """The offsets that can be read now."""

    begin: Offsets  # where to start each partition of `end`, new and recreated ones included
    end: Offsets


class Advance:
    """Compares the logs of one query with the cluster's answers, before each batch."""

    def __init__(self, options: SourceOptions, cluster: Cluster) -> None:
        self._options = options
        self._cluster = cluster
        self._known = KnownLogs()
        self._target: dict[TopicPartition, LogView] | None = None
        self._settled = Findings()  # the last findings: their doubts are not checked again
        self._reported: dict[str, frozenset[TopicPartition]] = {}
        self.latest: Offsets | None = None  # as last seen, without limits of a trigger

    @property
    def topic_ids(self) -> Mapping[str, str | None]:
        return self._known.topic_ids

    def remember(self, logs: Mapping[TopicPartition, LogIdentity]) -> None:
        """Adopt the logs of a query that starts."""
        self._known.remember(logs)

    def recall(self, topic_ids: Mapping[str, str]) -> None:
        """Take over the ids that the query's topics had before a restart."""
        self._known.recall(topic_ids)

    def others(self, topic_ids: Mapping[str, str]) -> dict[str, str]:
        """The topics whose current id differs from the given one, with the current id.

        A doubtful answer is requested again: a broker may not know of the new topic yet.
        """
        found: dict[str, str] = {}
        for _ in looks(self._options):
            shown = self._cluster.logs(expected=(), may_be_missing=True)
            now = {key.topic: log.topic_id for key, log in shown.items() if log.topic_id}
            found = {
                topic: each for topic, each in now.items() if topic_ids.get(topic, each) != each
            }
            if not found:
                break
        return found

    def fix_target(self) -> None:
        """Never advance beyond the current ends of the logs."""
        self._target = self._cluster.logs(expected=(), may_be_missing=True)

    def from_(self, begin: Offsets) -> Reach:
        """The offsets that a query whose position is `begin` can read.

        Raises:
            DataLoss: records that should be read are gone or not shown, and `failOnDataLoss` is
                set.
        """
        read = {key: offset for key, offset in begin.items() if self._cluster.reads(key)}
        self._report(
            "the options leave out partitions that the query has read", begin.keys() - read.keys()
        )
        shown, findings = self._look(read)
        self._settle(findings, read, shown)
        first = self._cluster.earliest(
            (findings.ends.keys() - read.keys()) | findings.recreated.keys()
        )
        lost = {key for key, offset in first.items() if offset and key not in read}
        self._report("new partitions have lost their first records", lost)
        end = findings.ends | {key: read[key] for key in findings.doubts}
        for key, end_offset in findings.recreated.items():
            end[key] = end_in_new_log(read[key], first[key], end_offset)
        self._known.remember(shown)
        self._known.keep_positions({key: read[key] for key in findings.recreated})
        self.latest = end
        start = {key: first.get(key, read.get(key, 0)) for key in end}
        return Reach({key: min(start[key], end[key]) for key in end}, end)

    def recreated(self, ends: Offsets) -> set[TopicPartition]:
        """The partitions of a batch that are now new logs, and end before the batch does."""
        if not ends:
            return set()
        there = self._cluster.high_watermarks(at_least=ends)
        short = {key for key, end_offset in ends.items() if there[key] < end_offset}
        if not short:
            return set()
        shown = self._cluster.logs(expected=short)
        return {key for key in short & shown.keys() if self._known.is_recreated(key, shown[key])}

    def _look(self, begin: Offsets) -> tuple[dict[TopicPartition, LogView], Findings]:
        """The cluster's answer and the findings about it; repeats the request in case of doubts."""
        if self._target is not None:
            findings = self._known.judge(begin, self._target)
            if self._is_settled(findings) and not self._names_more_than(begin, self._target):
                return self._target, findings
        for _ in looks(self._options):
            shown = self._cluster.logs(expected=begin.keys())
            findings = self._known.judge(begin, shown)
            self._excuse_open_transactions(findings, begin)
            if self._is_settled(findings):
                break
            _logger.warning("the cluster's answer may be wrong about %s", _names(findings.doubts))
        if self._target is not None:
            old = {key: log for key, log in self._target.items() if key not in begin}
            shown = self._target = old | {key: shown[key] for key in begin if key in shown}
            findings = self._known.judge(begin, shown)
            self._excuse_open_transactions(findings, begin)
        return shown, findings

    def _excuse_open_transactions(self, findings: Findings, begin: Offsets) -> None:
        """Drop doubts about positions between the last stable offset and the high watermark.

        A query gets there if it was run with `read_uncommitted` before.
        """
        if not findings.shorter or self._options.isolation_level == "read_uncommitted":
            return
        positions = {key: begin[key] for key in findings.shorter}
        there = self._cluster.high_watermarks(at_least=positions)
        for key, position in positions.items():
            if there[key] >= position:
                findings.shorter.remove(key)
                findings.ends[key] = position

    def _settle(
        self, findings: Findings, begin: Offsets, shown: Mapping[TopicPartition, LogView]
    ) -> None:
        """Resolve the doubts that can be resolved, and report losses and remaining doubts."""
        for key in sorted(findings.shorter):
            if self._known.is_recreated(key, shown[key]):
                findings.shorter.remove(key)
                findings.recreated[key] = shown[key].end_offset
        # A cluster that still shows a topic of that name, even with another id, may be stale.
        for topic in sorted({key.topic for key in findings.away} - {key.topic for key in shown}):
            topic_id = self.topic_ids.get(topic)
            if topic_id is not None and self._cluster.is_deleted(topic_id):
                gone = {key for key in findings.away if key.topic == topic}
                findings.away -= gone
                findings.gone |= gone
        self._report("partitions are gone", findings.gone)

        def with_ids(key: TopicPartition) -> str:
            before, now = self.topic_ids.get(key.topic), shown[key].topic_id
            return f"{key} (of topic id {before}, now {now})" if before and now else str(key)

        self._report(
            "topics were deleted and created again", findings.recreated, with_ids, RECREATED
        )

        def shorter(key: TopicPartition) -> str:
            return f"{key} ends at {shown[key].end_offset}, the query is at {begin[key]}"

        kept = "with failOnDataLoss=false it would continue with all others and keep that position"
        advice = f"Nothing was written to the checkpoint: a restart continues from there; {kept}."
        self._report("a log ends before the query's position", findings.shorter, shorter, advice)

        def away(key: TopicPartition) -> str:
            return f"{key} at offset {begin[key]}"

        self._report("the cluster's metadata lacks partitions", findings.away, away, advice)
        for topic in {key.topic for key in findings.gone} - {key.topic for key in shown}:
            self._known.forget(topic)
        self._settled = findings

    def _is_settled(self, findings: Findings) -> bool:
        """Whether every doubt was checked and reported before."""
        before = self._settled
        return findings.away <= before.away and findings.shorter <= before.shorter

    def _names_more_than(self, begin: Offsets, shown: Mapping[TopicPartition, LogView]) -> bool:
        """Whether the options name a topic that is not shown; a new look then raises an error."""
        topics = set(self._options.subscription.topics)
        there = {key.topic for key in begin} | {key.topic for key in shown}
        return self._options.fail_on_data_loss and not topics <= there

    def _report(
        self,
        what: str,
        partitions: Iterable[TopicPartition],
        describe: Callable[[TopicPartition], str] = str,
        advice: str | None = None,
    ) -> None:
        """Fail, or warn: once for each partition, as long as the condition lasts."""
        now = frozenset(partitions)
        news = now - self._reported.get(what, frozenset())
        if not news:
            self._reported[what] = now
            return
        named = f"{what}: {', '.join(describe(key) for key in sorted(news))}"
        fail = self._options.fail_on_data_loss
        if advice is None:
            report_data_loss(named, fail=fail)
        else:
            report_data_loss(named, fail=fail, advice=advice)
        self._reported[what] = now


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(str(key) for key in sorted(partitions))
