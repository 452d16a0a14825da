"""What clients did and saw, as they themselves noted it: recording, files, and the form to check.

A recorder writes one line per event, at once, so that the history of a client that is killed is
true as far as it goes. All clocks are the machine's monotonic one, so events of several processes
of one machine can be compared. Nothing here judges: that is `checker.py`.

An event is a JSON array: kind, time, who, and what the kind needs.

| kind | more | when it is noted |
|---|---|---|
| begin | transaction | before its first write |
| write | transaction, partition, value | before the record is handed to the producer |
| ack | value, offset | when the producer says that the record is written |
| commit | transaction | before the commit is asked for |
| end | transaction, `committed` or `aborted` | after the producer has said so |
| poll | transaction or null, [[partition, offset, value], ...] | after the consumer returned them |
| jump | {partition: offset or null} | when positions are set; null if it is not known where to |
| uncommitted | | the reader reads uncommitted data |
| complete | | the reader has read everything there is, to the end |
| member | group | the reader is a member of a group, whose members share what there is |
| committing | {partition: offset} | before the group's coordinator is asked to commit them |
| committed | | after it has said that it has |
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple


class Outcome(StrEnum):
    """What became of a transaction, as far as its producer knows."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    #: The commit was asked for, and no answer came.
    UNKNOWN = "unknown"


@dataclass
class Write:
    """A record that was sent. Values are unique in a history; the offset comes with the ack."""

    partition: str
    value: int
    offset: int | None = None


@dataclass
class Transaction:
    """Writes that count together. One that never asked for its commit must never be seen.

    A write outside of any transaction is one by itself, whose commit is asked for as it begins.
    """

    writer: str
    number: int
    writes: list[Write] = field(default_factory=list)
    commit_asked_ns: int | None = None
    outcome: Outcome = Outcome.ABORTED

    def __str__(self) -> str:
        return f"{self.writer}/{self.number} ({self.outcome})"


class Read(NamedTuple):
    """A record that a reader was given."""

    partition: str
    offset: int
    value: int


class Poll(NamedTuple):
    """What one poll returned, in its order."""

    at_ns: int
    transaction: int | None
    reads: tuple[Read, ...]


class Jump(NamedTuple):
    """Positions are set again, so what follows need not follow what was read before."""

    positions: Mapping[str, int | None]
    at_ns: int = 0


@dataclass
class OffsetCommit:
    """Offsets that a member of a group has asked to be committed, and when it was told they are."""

    offsets: Mapping[str, int]
    asked_ns: int
    done_ns: int | None = None


@dataclass
class Reader:
    """One consumer's way through the log."""

    name: str
    steps: list[Poll | Jump] = field(default_factory=list)
    is_committed_only: bool = True
    is_complete: bool = False
    #: Of which it is a member, and what it has committed there.
    group: str | None = None
    commits: list[OffsetCommit] = field(default_factory=list)

    def polls(self) -> Iterable[Poll]:
        return (step for step in self.steps if isinstance(step, Poll))


@dataclass
class History:
    """Everything that happened, put together by writer and by reader."""

    #: In the order of each writer: by number, whenever they began.
    transactions: list[Transaction] = field(default_factory=list)
    readers: list[Reader] = field(default_factory=list)

    @classmethod
    def of(cls, events: Iterable[list[Any]]) -> History:
        assembly = _Assembly()
        for event in events:
            assembly.add(event)
        transactions = sorted(assembly.transactions.values(), key=lambda t: (t.writer, t.number))
        return cls(transactions, list(assembly.readers.values()))

    def count(self, outcome: Outcome, writer: str | None = None) -> int:
        """Transactions with this outcome, of one writer or of all."""
        return sum(
            each.outcome is outcome and writer in (None, each.writer) for each in self.transactions
        )

    def count_reads(self) -> int:
        return sum(len(poll.reads) for reader in self.readers for poll in reader.polls())


class _Assembly:
    """Puts events together, whatever order the threads of a client brought them in."""

    def __init__(self) -> None:
        self.transactions: dict[tuple[str, int], Transaction] = {}
        self.readers: dict[str, Reader] = {}
        self._writes: dict[int, Write] = {}

    def add(self, event: list[Any]) -> None:
        kind, at_ns, who, *more = event
        if kind in ("poll", "jump", "uncommitted", "complete", "member", "committing", "committed"):
            self._add_of_reader(kind, at_ns, self.readers.setdefault(who, Reader(who)), more)
        elif kind == "ack":
            value, offset = more
            self._writes[value].offset = offset
        else:
            number = more[0]
            found = self.transactions.setdefault((who, number), Transaction(who, number))
            self._add_of_writer(kind, at_ns, found, more)

    def _add_of_writer(self, kind: str, at_ns: int, found: Transaction, more: list[Any]) -> None:
        if kind == "write":
            _, partition, value = more
            assert value not in self._writes, f"{value} is written twice, which says nothing"
            write = self._writes[value] = Write(partition, value)
            found.writes.append(write)
        elif kind == "commit":
            if found.commit_asked_ns is None:  # a commit may be asked for again
                found.commit_asked_ns = at_ns
            found.outcome = Outcome.UNKNOWN
        elif kind == "end":
            found.outcome = Outcome(more[1])
        else:
            assert kind == "begin", kind

    def _add_of_reader(self, kind: str, at_ns: int, reader: Reader, more: list[Any]) -> None:
        if kind == "poll":
            number, reads = more
            reader.steps.append(Poll(at_ns, number, tuple(Read(*each) for each in reads)))
        elif kind == "jump":
            reader.steps.append(Jump(more[0], at_ns))
        elif kind == "member":
            reader.group = more[0]
        elif kind == "committing":
            reader.commits.append(OffsetCommit(more[0], at_ns))
        elif kind == "committed":
            reader.commits[-1].done_ns = at_ns
        elif kind == "uncommitted":
            reader.is_committed_only = False
        else:
            reader.is_complete = True


class Recorder:
    """Writes a history. Threads may share it; processes have a file each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._lock = threading.Lock()

    def close(self) -> None:
        with self._lock:
            self._file.close()

    def begin(self, who: str, number: int) -> None:
        self._note("begin", who, number)

    def write(self, who: str, number: int, partition: str, value: int) -> None:
        self._note("write", who, number, partition, value)

    def ack(self, who: str, value: int, offset: int) -> None:
        self._note("ack", who, value, offset)

    def commit(self, who: str, number: int) -> None:
        self._note("commit", who, number)

    def end(self, who: str, number: int, outcome: Outcome) -> None:
        self._note("end", who, number, outcome)

    def poll(self, who: str, number: int | None, reads: Iterable[Read]) -> None:
        self._note("poll", who, number, list(reads))

    def jump(self, who: str, positions: Mapping[str, int | None]) -> None:
        self._note("jump", who, positions)

    def uncommitted(self, who: str) -> None:
        self._note("uncommitted", who)

    def complete(self, who: str) -> None:
        self._note("complete", who)

    def member(self, who: str, group: str) -> None:
        self._note("member", who, group)

    def committing(self, who: str, offsets: Mapping[str, int]) -> None:
        self._note("committing", who, offsets)

    def committed(self, who: str) -> None:
        self._note("committed", who)

    def _note(self, kind: str, who: str, *more: Any) -> None:
        line = json.dumps([kind, time.monotonic_ns(), who, *more], separators=(",", ":"))
        with self._lock:
            if not self._file.closed:  # a callback of a client that was given up may come late
                self._file.write(line + "\n")


def load(*paths: Path) -> History:
    """The history in these files, put together. A last line that was cut short is left out."""
    events: list[list[Any]] = []
    for path in paths:
        lines = path.read_text("utf-8").splitlines(keepends=True)
        events += [json.loads(line) for line in lines if line.endswith("\n")]
    # An ack needs its write, and both are in one file: a stable order of time keeps them so.
    events.sort(key=lambda event: event[1])
    return History.of(events)
