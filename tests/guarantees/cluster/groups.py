"""What a history says of consumer groups: nothing is left out, and no committed offset is lost.

Pure. Members read on from where their group has committed, so what all of them have read together
has no gap; they may read again what was not committed.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterator

from guarantees.histories.checker import Facts
from guarantees.histories.history import History, Jump, Reader


def check_groups(history: History) -> list[str]:
    """What is wrong, if something is."""
    groups: dict[str, list[Reader]] = defaultdict(list)
    for reader in history.readers:
        if reader.group is not None:
            groups[reader.group].append(reader)
    facts = Facts(history)
    return [
        f"group {name}: {what}"
        for name, members in groups.items()
        for what in (*_lost_commits(members), *_gaps(members, facts))
    ]


def count_resumptions(history: History) -> int:
    """How often a member has begun to read where its group had committed."""
    return sum(
        position is None
        for reader in history.readers
        if reader.group is not None
        for step in reader.steps
        if isinstance(step, Jump)
        for position in step.positions.values()
    )


def _lost_commits(members: list[Reader]) -> Iterator[str]:
    """Where a member begins before what had been committed by then.

    A commit that was asked for without an answer may be made at any time after. So members need to
    wait for one before they ask for the next.
    """
    known = _Commits(members)
    for member in members:
        assigned: dict[str, int] = {}
        for step in member.steps:
            if isinstance(step, Jump):
                assigned |= dict.fromkeys(step.positions, step.at_ns)
                continue
            for partition, offset, _ in step.reads:
                at_ns = assigned.pop(partition, None)
                if at_ns is None:
                    continue
                least = known.least(partition, at_ns, step.at_ns)
                if offset < least:
                    yield f"{member.name} begins {partition} at {offset}: {least} was committed"


class _Commits:
    """Of one group."""

    def __init__(self, members: list[Reader]) -> None:
        self._done: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self._unknown: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for member in members:
            for commit in member.commits:
                for partition, offset in commit.offsets.items():
                    if commit.done_ns is None:
                        self._unknown[partition].append((commit.asked_ns, offset))
                    else:
                        self._done[partition].append((commit.done_ns, offset))
        for found in self._done.values():
            found.sort()

    def least(self, partition: str, from_ns: int, to_ns: int) -> int:
        """What is committed at least, for whoever asks between these times."""
        done = self._done[partition]
        before = bisect.bisect_left(done, (from_ns, -1))
        maybe = [offset for asked_ns, offset in self._unknown[partition] if asked_ns < to_ns]
        return min([done[before - 1][1], *maybe]) if before else 0


def _gaps(members: list[Reader], facts: Facts) -> Iterator[str]:
    """Committed records that no member was given, though later ones were."""
    seen: dict[str, set[int]] = defaultdict(set)
    for member in members:
        for poll in member.polls():
            for read in poll.reads:
                seen[read.partition].add(read.offset)
    for partition, offsets in seen.items():
        last = max(offsets)
        lacking = [
            offset
            for offset in facts.committed_offsets.get(partition, [])
            if offset < last and offset not in offsets
        ]
        if lacking:
            yield f"{len(lacking)} records of {partition} are left out, the first at {lacking[0]}"
