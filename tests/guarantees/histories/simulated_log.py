"""A log in memory with transactional writers and readers, that makes histories, right or wrong.

It is what the checker is tested with: without a bug every history is clean, and each bug is the
kind of mistake that a broker could make. `Simulation.struck` says whether the bug had an effect.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from guarantees.histories.checker import Kind

PARTITIONS = ("a-0", "a-1", "b-0")


class Bug(StrEnum):
    """Mistakes of a broker; `CAUGHT_AS` says what each looks like to its clients."""

    SHOWS_ABORTED = "a reader is given aborted records"
    IGNORES_LAST_STABLE_OFFSET = "a reader is given records of open transactions"
    COMMITS_IN_HALVES = "a commit reaches some of the records only"
    FORGETS_A_RECORD = "an acknowledged record vanishes"
    HIDES_THE_END = "the last records cannot be read"
    OVERWRITES = "a record is replaced after it was acknowledged"
    APPENDS_TWICE = "a repeated record is appended again"
    INVENTS = "a reader is given what was never written"
    SKIPS_IN_POLL = "a record is left out in the midst of a poll"
    SKIPS_BETWEEN_POLLS = "a record is left out between two polls"
    REPEATS_IN_POLL = "a record is given twice in a poll"
    REPEATS_BETWEEN_POLLS = "a record is given again by the next poll"
    SWAPS_IN_TRANSACTION = "records of a transaction change places"
    LATE_RECORD = "a record of a transaction arrives in the midst of the next one"
    FORGETS_THE_WRITER = "a record of a transaction arrives after the next one"
    COMMITS_THE_ABANDONED = "a transaction is committed without a request"


CAUGHT_AS: dict[Bug, set[Kind]] = {
    Bug.SHOWS_ABORTED: {Kind.ABORTED_READ},
    Bug.IGNORES_LAST_STABLE_OFFSET: {Kind.PRECOMMITTED_READ, Kind.ABORTED_READ},
    Bug.COMMITS_IN_HALVES: {Kind.LOST_WRITE, Kind.UNSEEN},
    Bug.FORGETS_A_RECORD: {Kind.LOST_WRITE, Kind.UNSEEN},
    Bug.HIDES_THE_END: {Kind.UNSEEN},
    Bug.OVERWRITES: {Kind.INCONSISTENT_OFFSETS},
    Bug.APPENDS_TWICE: {Kind.DUPLICATE},
    Bug.INVENTS: {Kind.UNWRITTEN_READ},
    Bug.SKIPS_IN_POLL: {Kind.INTERNAL_SKIPPED_POLL},
    Bug.SKIPS_BETWEEN_POLLS: {Kind.EXTERNAL_SKIPPED_POLL},
    Bug.REPEATS_IN_POLL: {Kind.INTERNAL_BACKWARD_POLL},
    Bug.REPEATS_BETWEEN_POLLS: {Kind.EXTERNAL_BACKWARD_POLL},
    Bug.SWAPS_IN_TRANSACTION: {Kind.INTERNAL_BACKWARD_SEND},
    Bug.LATE_RECORD: {Kind.SKIPPED_SEND},
    Bug.FORGETS_THE_WRITER: {Kind.EXTERNAL_BACKWARD_SEND},
    Bug.COMMITS_THE_ABANDONED: {Kind.ABORTED_READ},
}


@dataclass(eq=False)
class _Entry:
    """A place in the log; without a value it is a marker, or lost."""

    value: int | None
    is_committed: bool = False


@dataclass
class _Open:
    """A transaction as the log sees it."""

    number: int
    entries: list[_Entry] = field(default_factory=list)
    first_offsets: dict[str, int] = field(default_factory=dict)
    #: Something that was sent did not arrive: its producer can only abort.
    is_incomplete: bool = False


class Simulation:
    """A few hundred steps of a few clients; `events` is their history."""

    def __init__(self, seed: int, bug: Bug | None = None, steps: int = 400) -> None:
        self.events: list[list[Any]] = []
        self.struck = False
        self._random = random.Random(seed)
        self._bug = bug
        self._log: dict[str, list[_Entry]] = {each: [] for each in PARTITIONS}
        self._open: dict[str, _Open] = {}
        self._numbers: dict[str, int] = defaultdict(int)
        self._last_value = 0
        self._positions: dict[str, dict[str, int]] = {}
        for _ in range(steps):
            self._step()
        for writer in list(self._open):
            self._crash(writer)
        self._read_to_the_end("last")

    def _step(self) -> None:
        writer = self._random.choice(("w1", "w2", "w3"))
        choice = self._random.random()
        if choice < 0.35:
            self._poll(self._random.choice(("r1", "r2")))
        elif writer not in self._open:
            self._begin(writer)
        elif choice < 0.8:
            self._write(writer, self._random.choice(PARTITIONS))
        elif choice < 0.93:
            self._commit(writer)
        elif choice < 0.97:
            self._abort(writer)
        else:
            self._crash(writer)

    def _note(self, kind: str, who: str, *more: Any) -> None:
        self.events.append([kind, len(self.events), who, *more])

    def _strikes(self, bug: Bug, chance: float = 0.2) -> bool:
        strikes = self._bug is bug and self._random.random() < chance
        self.struck |= strikes
        return strikes

    # -- writers -------------------------------------------------------------------------------

    def _begin(self, writer: str) -> None:
        self._numbers[writer] += 1
        self._open[writer] = _Open(self._numbers[writer])
        self._note("begin", writer, self._numbers[writer])

    def _send(self, writer: str, number: int, partition: str) -> int:
        self._last_value += 1
        self._note("write", writer, number, partition, self._last_value)
        return self._last_value

    def _append(self, writer: str, partition: str, value: int, has_ack: bool = True) -> _Entry:
        transaction = self._open[writer]
        entry = _Entry(value)
        transaction.first_offsets.setdefault(partition, len(self._log[partition]))
        transaction.entries.append(entry)
        if has_ack:
            self._note("ack", writer, value, len(self._log[partition]))
        self._log[partition].append(entry)
        return entry

    def _write(self, writer: str, partition: str) -> None:
        transaction = self._open[writer]
        value = self._send(writer, transaction.number, partition)
        if self._random.random() < 0.02:
            transaction.is_incomplete = True
        elif self._strikes(Bug.SWAPS_IN_TRANSACTION):
            later = self._send(writer, transaction.number, partition)
            self._append(writer, partition, later)
            self._append(writer, partition, value)
        else:
            self._append(writer, partition, value, has_ack=self._random.random() < 0.9)

    def _commit(self, writer: str) -> None:
        transaction = self._open[writer]
        if transaction.is_incomplete:
            self._abort(writer)
            return
        self._note("commit", writer, transaction.number)
        happens = self._random.random() < 0.9
        has_answer = happens and self._random.random() < 0.9
        if happens and has_answer and transaction.entries:
            self._spoil_commit(writer, transaction)
        self._end(writer, happens)
        if has_answer:
            self._note("end", writer, transaction.number, "committed")
            self._send_late(writer, transaction.number)

    def _spoil_commit(self, writer: str, transaction: _Open) -> None:
        entries = transaction.entries
        partition = self._random.choice(list(transaction.first_offsets))
        if self._strikes(Bug.FORGETS_A_RECORD):
            self._random.choice(entries).value = None
        elif len(entries) > 1 and self._strikes(Bug.COMMITS_IN_HALVES):
            entries.pop()
        elif entries[-1].value is not None and self._strikes(Bug.APPENDS_TWICE):
            self._append(writer, partition, entries[-1].value, has_ack=False)
        elif self._strikes(Bug.OVERWRITES):
            value = self._send(writer, transaction.number, partition)
            self._note("ack", writer, value, transaction.first_offsets[partition])

    def _send_late(self, writer: str, number: int) -> None:
        """A record of a transaction that has ended arrives in the next one, or after it."""
        is_between = self._strikes(Bug.LATE_RECORD)
        if not is_between and not self._strikes(Bug.FORGETS_THE_WRITER):
            return
        partition = self._random.choice(PARTITIONS)
        late = self._send(writer, number, partition)
        self._begin(writer)
        self._write_plainly(writer, partition)
        self._append(writer, partition, late)
        if is_between:
            self._write_plainly(writer, partition)

    def _write_plainly(self, writer: str, partition: str) -> None:
        self._append(writer, partition, self._send(writer, self._numbers[writer], partition))

    def _abort(self, writer: str) -> None:
        self._end(writer, is_commit=False)
        self._note("end", writer, self._numbers[writer], "aborted")

    def _crash(self, writer: str) -> None:
        """The client is gone without a word, and the broker ends its transaction."""
        has_written = bool(self._open[writer].entries)
        self._end(writer, has_written and self._strikes(Bug.COMMITS_THE_ABANDONED, 1.0))

    def _end(self, writer: str, is_commit: bool) -> None:
        transaction = self._open.pop(writer)
        for entry in transaction.entries:
            entry.is_committed = is_commit
        for partition in transaction.first_offsets:
            self._log[partition].append(_Entry(None))

    # -- readers -------------------------------------------------------------------------------

    def _stable(self, partition: str) -> int:
        """The last stable offset."""
        end = len(self._log[partition])
        return min(
            (each.first_offsets.get(partition, end) for each in self._open.values()), default=end
        )

    def _readable(self, partition: str) -> list[tuple[int, int]]:
        """Offsets and values that a reader of committed data may be given."""
        return [
            (offset, entry.value)
            for offset, entry in enumerate(self._log[partition][: self._stable(partition)])
            if entry.is_committed and entry.value is not None
        ]

    def _poll(self, reader: str) -> None:
        if reader not in self._positions or self._random.random() < 0.05:
            self._positions[reader] = {
                each: self._random.randrange(len(self._log[each]) + 1) for each in PARTITIONS
            }
            self._note("jump", reader, dict(self._positions[reader]))
        positions = self._positions[reader]
        reads = []
        for partition in PARTITIONS:
            readable = [
                each for each in self._readable(partition) if each[0] >= positions[partition]
            ]
            found = readable[: self._random.randint(0, 4)]
            found = self._spoil_poll(found, partition, positions[partition])
            if found:
                positions[partition] = max(positions[partition], found[-1][0] + 1)
            reads += [[partition, offset, value] for offset, value in found]
        self._note("poll", reader, None, reads)

    def _spoil_poll(
        self, found: list[tuple[int, int]], partition: str, position: int
    ) -> list[tuple[int, int]]:
        entries = list(enumerate(self._log[partition]))
        stable = self._stable(partition)
        passed = [(at, value) for at, value in self._readable(partition) if at < position]
        hidden = [
            (at, entry.value)
            for at, entry in entries
            if at >= position and entry.value is not None and not entry.is_committed
        ]
        aborted = [each for each in hidden if each[0] < stable]
        undecided = [each for each in hidden if each[0] >= stable]
        if len(found) > 2 and self._strikes(Bug.SKIPS_IN_POLL):
            return [found[0], *found[2:]]
        if len(found) > 1 and self._strikes(Bug.SKIPS_BETWEEN_POLLS):
            return found[1:]
        if found and self._strikes(Bug.REPEATS_IN_POLL):
            return [*found, found[-1]]
        if passed and self._strikes(Bug.REPEATS_BETWEEN_POLLS):
            return [passed[-1], *found]
        if found and self._strikes(Bug.INVENTS):
            return [*found[:-1], (found[-1][0], -1)]
        if aborted and self._strikes(Bug.SHOWS_ABORTED):
            return sorted([*found, aborted[0]])
        if undecided and self._strikes(Bug.IGNORES_LAST_STABLE_OFFSET):
            return [*found, undecided[0]]
        return found

    def _read_to_the_end(self, reader: str) -> None:
        self._note("jump", reader, dict.fromkeys(PARTITIONS, 0))
        reads: list[list[Any]] = []
        for partition in PARTITIONS:
            readable = self._readable(partition)
            if readable and self._strikes(Bug.HIDES_THE_END, 1.0):
                readable.pop()
            reads += [[partition, offset, value] for offset, value in readable]
        self._note("poll", reader, None, reads)
        self._note("complete", reader)
