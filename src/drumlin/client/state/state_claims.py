"""Decides whether a log still has its exact state at an offset. Sends no requests.

The state at an offset is the last value of each key before it. The cleaner removes records that
later ones replace. If a later one is after that offset, the state can no longer be read. It is
exact

    told      if the broker reports, before and after reading, as the same leader, that no cleaning
              has used records after the offset
    complete  if the log has a record or a marker at every offset from 0: nothing was removed
    now       if the offset is the log's end, and the topic is not compacted; or nothing was
              appended while it was read, so that no record was replaced; or the appended records
              are too new to be cleaned (min.compaction.lag.ms)

Tombstones are removed, too, some time after the values that they delete. A reader that takes longer
than that may have read a value, and never see its tombstone.

Only a Drumlin broker reports "told". With Apache Kafka only the other two reasons apply.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from drumlin.client.errors import RecordsMissing, StateNotExact
from drumlin.client.topic_partition import TopicPartition

Basis: TypeAlias = Literal["told", "complete", "now", "inexact"]

#: The maximum difference between the clocks of the reading machines.
_CLOCKS_DIFFER_MS: Final = 60_000
_ANOTHER_LEADER: Final = "another leader was elected while the log was read; try again"


class LogFacts(NamedTuple):
    """The facts about one log, from its brokers."""

    #: Fetched before reading only.
    log_start_offset: int
    #: Fetched only if the broker does not report `exact_from`.
    high_watermark: int
    #: None: the broker does not report it.
    exact_from: int | None
    leader_epoch: int
    #: Changes each time that tombstones or markers are removed, if the broker reports it.
    deletion_drops: int = 0
    #: This and the following facts are of the topic, and fetched only if needed.
    delete_retention_ms: int = 0
    is_compacted: bool = True
    min_compaction_lag_ms: int = 0
    has_append_times: bool = False


class Claim(NamedTuple):
    """The reason why a state can be read exactly, unless the log changes meanwhile."""

    end_offset: int
    basis: Basis
    leader_epoch: int
    since_ms: int
    deletion_drops: int = 0

    @property
    def needs_all(self) -> bool:
        """Whether the log must be read without gaps."""
        return self.basis == "complete"


Claims: TypeAlias = Mapping[TopicPartition, Claim]


def claim(
    place: TopicPartition,
    end_offset: int,
    facts: LogFacts,
    now_ms: int,
    *,
    is_now: bool,
    allow_inexact: bool = False,
) -> Claim:
    """The claim for a state, before reading; `is_now`: its offset is the log's end.

    Raises:
        StateNotExact: the state cannot be read exactly, and must be.
    """
    exact_from = facts.exact_from
    basis: Basis = "inexact"
    if exact_from is not None and exact_from <= end_offset:
        basis = "told"
    elif allow_inexact:
        pass
    elif exact_from is None and is_now:
        basis = "now"
    elif facts.log_start_offset == 0:
        basis = "complete"
    else:
        why = f"records before offset {facts.log_start_offset} are deleted"
        raise StateNotExact(*place, end_offset, exact_from, why)
    return Claim(end_offset, basis, facts.leader_epoch, now_ms, facts.deletion_drops)


def check(place: TopicPartition, claimed: Claim, facts: LogFacts, now_ms: int) -> None:
    """Check a claim after reading.

    Raises:
        StateNotExact: the log has changed meanwhile.
    """
    why: str | None = None
    if claimed.basis == "told":
        why = _why_not_told(claimed, facts, now_ms)
    elif claimed.basis == "now":
        why = _why_not_now(claimed, facts, now_ms)
    if why is not None:
        raise StateNotExact(*place, claimed.end_offset, facts.exact_from, why)


def incomplete(claimed: Claim, exact_from: int | None, missing: RecordsMissing) -> StateNotExact:
    """The error when reading without gaps has found a gap."""
    why = f"records are missing from offset {missing.offset} on; later ones may have replaced them"
    place = missing.topic, missing.partition
    return StateNotExact(*place, claimed.end_offset, exact_from, why)


def _why_not_told(claimed: Claim, facts: LogFacts, now_ms: int) -> str | None:
    if facts.leader_epoch != claimed.leader_epoch:
        return _ANOTHER_LEADER
    if facts.exact_from is None or facts.exact_from > claimed.end_offset:
        return "the cleaner has overtaken the reader; try again"
    if facts.deletion_drops != claimed.deletion_drops:
        return why_deletions_may_lack(claimed, facts, now_ms)
    return None


def why_deletions_may_lack(claimed: Claim, facts: LogFacts, now_ms: int) -> str | None:
    """The reason why tombstones may be missing; None if delete.retention.ms is long enough."""
    read_ms = now_ms - claimed.since_ms + _CLOCKS_DIFFER_MS
    if read_ms < 0:
        return "the clock was set back while the log was read; try again"
    if facts.delete_retention_ms >= read_ms:
        return None
    return (
        "tombstones may have been removed while the log was read, before the reader got to them. "
        f"To keep them for long enough, delete.retention.ms must be {read_ms} or more"
    )


def _why_not_now(claimed: Claim, facts: LogFacts, now_ms: int) -> str | None:
    if not facts.is_compacted:
        return None
    if facts.leader_epoch != claimed.leader_epoch:
        return _ANOTHER_LEADER
    why = why_deletions_may_lack(claimed, facts, now_ms)
    if why is not None or facts.high_watermark == claimed.end_offset:
        return why
    read_ms = now_ms - claimed.since_ms
    if facts.has_append_times and facts.min_compaction_lag_ms >= read_ms + _CLOCKS_DIFFER_MS:
        return None
    return (
        "this broker does not report how far it has cleaned, and the log has grown while it was "
        "read. It can be read exactly while nobody writes, or with message.timestamp.type="
        f"LogAppendTime and a min.compaction.lag.ms of {read_ms + _CLOCKS_DIFFER_MS} or more"
    )
