"""Whether a log tells the state that it had at an offset. Decides only; asks nobody.

The state at an offset is the last value of each key before it. A cleaner removes records that have
later ones, even by records after that offset: then the state can't be read any longer. It is exact

    told      if the broker says that no cleaning has looked beyond the offset,
              before the log is read and afterwards, as the same leader
    complete  if the log has a record or a marker at every offset from 0 on: nothing was removed
    now       if it is the log's end, and the topic is not compacted; or nothing was appended while
              it was read, so that nothing took another's place; or what was appended is younger
              than the cleaner touches

Tombstones are removed, too, some time after what they have deleted. A reader that takes longer
than that may have read a value, and never see its tombstone.

Only a broker of Drumlin tells. With an Apache Kafka a state is exact for one of the other reasons.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from drumlin.client.errors import RecordsMissing, StateNotExact
from drumlin.client.topic_partition import TopicPartition

Basis: TypeAlias = Literal["told", "complete", "now", "inexact"]

#: By so much the clocks of the machines that read may differ.
_CLOCKS_DIFFER_MS: Final = 60_000
_ANOTHER_LEADER: Final = "another leader took over while it was read; try again"


class LogFacts(NamedTuple):
    """The facts that brokers tell of one log."""

    #: Asked for before reading only.
    log_start_offset: int
    #: Asked for where the broker does not tell.
    high_watermark: int
    #: None: the broker does not tell.
    exact_from: int | None
    leader_epoch: int
    #: It changes each time that tombstones or markers are removed, where the broker tells that.
    deletion_drops: int = 0
    #: Of the topic; the rest is asked for only where it matters.
    delete_retention_ms: int = 0
    is_compacted: bool = True
    min_compaction_lag_ms: int = 0
    has_append_times: bool = False


class Claim(NamedTuple):
    """Why the state at an offset can be read exactly, unless something happens meanwhile."""

    end_offset: int
    basis: Basis
    leader_epoch: int
    since_ms: int
    deletion_drops: int = 0

    @property
    def needs_all(self) -> bool:
        """Whether it must be read without gaps."""
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
    """Before reading; `is_now`: the state is that of the log's end.

    Raises:
        StateNotExact: it can't be read exactly, and must be.
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
    """After reading.

    Raises:
        StateNotExact: something has happened meanwhile.
    """
    why: str | None = None
    if claimed.basis == "told":
        why = _why_not_told(claimed, facts, now_ms)
    elif claimed.basis == "now":
        why = _why_not_now(claimed, facts, now_ms)
    if why is not None:
        raise StateNotExact(*place, claimed.end_offset, facts.exact_from, why)


def incomplete(claimed: Claim, exact_from: int | None, missing: RecordsMissing) -> StateNotExact:
    """The error where reading without gaps has found one."""
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
    """A tombstone stays for so long after the value that it has deleted was removed."""
    read_ms = now_ms - claimed.since_ms + _CLOCKS_DIFFER_MS
    if facts.delete_retention_ms >= read_ms:
        return None
    return (
        "tombstones may have been removed while it was read, before the reader got to them. "
        f"They stay for long enough with a delete.retention.ms of {read_ms} or more"
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
        "this broker does not tell up to where it has cleaned, and the log has grown while it was "
        "read. It can be read exactly while nobody writes, or with message.timestamp.type="
        f"LogAppendTime and a min.compaction.lag.ms of {read_ms + _CLOCKS_DIFFER_MS} or more"
    )
