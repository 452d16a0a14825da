"""Finds in a history what must not be, in the manner of Jepsen's Kafka workload.

Pure: a history goes in, anomalies come out. It claims only what follows from what the clients
noted, so it must be right about what is unknown:

- A transaction whose commit was asked for without an answer may or may not have happened. If a
  reader of committed data has seen one of its records it has, and then all of it must be there.
- A transaction that never asked for its commit has not happened, whatever became of its client.
- A record without an ack may be anywhere or nowhere; its offset is known once someone reads it.

"Internal" is within one transaction or one poll, "external" between them.
"""

from __future__ import annotations

import bisect
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from guarantees.histories.history import (
    History,
    Jump,
    Outcome,
    Poll,
    Read,
    Reader,
    Transaction,
    Write,
)


class Kind(StrEnum):
    """What can be wrong with a history."""

    #: A record of a transaction that was aborted, or never asked for its commit, was read.
    ABORTED_READ = "aborted read"
    #: A record was read before the commit of its transaction was asked for.
    PRECOMMITTED_READ = "pre-committed read"
    #: A committed record that no reader ever saw, though records after it were read.
    LOST_WRITE = "lost write"
    #: A committed record after the last one that a reader saw which has read to the end.
    UNSEEN = "unseen"
    #: One offset, two values.
    INCONSISTENT_OFFSETS = "inconsistent offsets"
    #: One value at two offsets.
    DUPLICATE = "duplicate"
    #: A value that no writer wrote to that partition.
    UNWRITTEN_READ = "unwritten read"
    #: A committed record lies between two that a reader was given one after the other.
    INTERNAL_SKIPPED_POLL = "internal skipped poll"
    EXTERNAL_SKIPPED_POLL = "external skipped poll"
    #: A reader was given a record that does not come after the one before.
    INTERNAL_BACKWARD_POLL = "internal backward poll"
    EXTERNAL_BACKWARD_POLL = "external backward poll"
    #: Records of one transaction have between them one of another transaction of that writer.
    SKIPPED_SEND = "internal skipped send"
    #: A writer's records are not in the order in which it sent them.
    INTERNAL_BACKWARD_SEND = "internal backward send"
    EXTERNAL_BACKWARD_SEND = "external backward send"


class Anomaly(NamedTuple):
    """One thing that must not be, in words that lead to the lines of the history."""

    kind: Kind
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


def check(history: History, tolerated: Collection[Kind] = ()) -> list[Anomaly]:
    """All anomalies except of the tolerated kinds: weaker promises tolerate some."""
    facts = Facts(history)
    found = [
        *facts.anomalies,
        *_check_visibility(history, facts),
        *_check_loss(history, facts),
        *_check_sends(facts),
    ]
    for reader in history.readers:
        found += _check_polls(reader, facts)
    return [anomaly for anomaly in found if anomaly.kind not in tolerated]


def summary(anomalies: Iterable[Anomaly], examples: int = 3) -> str:
    """How many of each kind, with a few examples."""
    anomalies = list(anomalies)
    lines = []
    for kind, count in Counter(each.kind for each in anomalies).items():
        lines.append(f"{count} x {kind}")
        shown = [each.what for each in anomalies if each.kind is kind][:examples]
        lines += [f"    {what}" for what in shown]
    return "\n".join(lines)


class Facts:
    """What is known about the log: which value is where, and what was committed."""

    def __init__(self, history: History) -> None:
        self.anomalies: list[Anomaly] = []
        self.transactions = history.transactions
        self.writes: dict[int, tuple[Transaction, Write]] = {
            write.value: (each, write) for each in history.transactions for write in each.writes
        }
        #: Values of each partition by offset, as acks and reads tell.
        self.values: dict[str, dict[int, int]] = defaultdict(dict)
        self._places: dict[int, tuple[str, int]] = {}
        self.seen: set[int] = set()
        self._locate(history)
        self._happened = self._find_happened(history)
        #: Offsets of committed records, rising.
        self.committed_offsets: dict[str, list[int]] = {
            partition: sorted(o for o, value in found.items() if self.is_committed(value))
            for partition, found in self.values.items()
        }

    def offset(self, value: int) -> int | None:
        place = self._places.get(value)
        return place[1] if place else None

    def is_committed(self, value: int) -> bool:
        """Whether it must be seen: committed for certain, or unknown and then seen."""
        return value in self.writes and self._key(self.writes[value][0]) in self._happened

    def happened(self, transaction: Transaction) -> bool:
        return self._key(transaction) in self._happened

    @staticmethod
    def _key(transaction: Transaction) -> tuple[str, int]:
        return transaction.writer, transaction.number

    def _locate(self, history: History) -> None:
        for _, write in self.writes.values():
            if write.offset is not None:
                self._note(Read(write.partition, write.offset, write.value), "an ack")
        for reader in history.readers:
            for poll in reader.polls():
                for read in poll.reads:
                    self.seen.add(read.value)
                    self._note(read, reader.name)

    def _note(self, read: Read, source: str) -> None:
        partition, offset, value = read
        before = self.values[partition].setdefault(offset, value)
        if before != value:
            text = f"{partition} at {offset} has {before}, and by {source} {value}"
            self.anomalies.append(Anomaly(Kind.INCONSISTENT_OFFSETS, text))
        place = self._places.setdefault(value, (partition, offset))
        if place != (partition, offset):
            text = f"{value} is in {place[0]} at {place[1]}, by {source} in {partition} at {offset}"
            self.anomalies.append(Anomaly(Kind.DUPLICATE, text))

    def _find_happened(self, history: History) -> set[tuple[str, int]]:
        visible = {
            read.value
            for reader in history.readers
            if reader.is_committed_only
            for poll in reader.polls()
            for read in poll.reads
        }
        return {
            self._key(each)
            for each in history.transactions
            if each.outcome is Outcome.COMMITTED
            or (
                each.outcome is Outcome.UNKNOWN
                and any(write.value in visible for write in each.writes)
            )
        }


def _check_visibility(history: History, facts: Facts) -> Iterator[Anomaly]:
    """What no reader may see, or not yet."""
    for reader in history.readers:
        for poll in reader.polls():
            for read in poll.reads:
                yield from _check_read(reader, poll, read, facts)


def _check_read(reader: Reader, poll: Poll, read: Read, facts: Facts) -> Iterator[Anomaly]:
    what = f"{reader.name} read {read.value} in {read.partition} at {read.offset}"
    transaction, write = facts.writes.get(read.value, (None, None))
    if transaction is None or write is None or write.partition != read.partition:
        yield Anomaly(Kind.UNWRITTEN_READ, what)
    elif not reader.is_committed_only:
        return
    elif transaction.outcome is Outcome.ABORTED:
        yield Anomaly(Kind.ABORTED_READ, f"{what}, of {transaction}")
    elif transaction.commit_asked_ns is None or poll.at_ns < transaction.commit_asked_ns:
        yield Anomaly(Kind.PRECOMMITTED_READ, f"{what}, of {transaction}")


def _check_loss(history: History, facts: Facts) -> Iterator[Anomaly]:
    """What must have been read, once a reader has read to the end."""
    complete = [reader for reader in history.readers if reader.is_complete]
    last_read: dict[str, int] = {}
    read_by: dict[str, set[int]] = {}
    for reader in history.readers:
        values = set()
        for poll in reader.polls():
            for read in poll.reads:
                values.add(read.value)
                last_read[read.partition] = max(last_read.get(read.partition, -1), read.offset)
        read_by[reader.name] = values
    for transaction in facts.transactions:
        if not facts.happened(transaction):
            continue
        for write in transaction.writes:
            offset = facts.offset(write.value)
            what = f"{write.value} of {transaction} in {write.partition} at {offset}"
            is_passed = offset is not None and offset < last_read.get(write.partition, -1)
            if write.value not in facts.seen and is_passed:
                yield Anomaly(Kind.LOST_WRITE, what)
                continue
            for reader in complete:
                if write.value not in read_by[reader.name]:
                    yield Anomaly(Kind.UNSEEN, f"{what}, by {reader.name}")


def _check_polls(reader: Reader, facts: Facts) -> Iterator[Anomaly]:
    """A reader goes through a partition forward, and leaves nothing out."""
    #: The offset before the next one to read, and the poll and the transaction it came with.
    places: dict[str, tuple[int, int, int | None]] = {}
    for number, step in enumerate(reader.steps):
        if isinstance(step, Jump):
            for partition, position in step.positions.items():
                if position is None:
                    places.pop(partition, None)
                else:
                    places[partition] = (position - 1, -1, None)
            continue
        for read in step.reads:
            if read.partition in places:
                before, poll_number, transaction = places[read.partition]
                is_internal = poll_number == number or (
                    transaction is not None and transaction == step.transaction
                )
                yield from _check_pair(reader, before, read, is_internal, facts)
            places[read.partition] = (read.offset, number, step.transaction)


def _check_pair(
    reader: Reader, before: int, read: Read, is_internal: bool, facts: Facts
) -> Iterator[Anomaly]:
    what = f"{reader.name} in {read.partition}: {read.offset} after {before}"
    if read.offset <= before:
        kind = Kind.INTERNAL_BACKWARD_POLL if is_internal else Kind.EXTERNAL_BACKWARD_POLL
        yield Anomaly(kind, what)
        return
    committed = facts.committed_offsets.get(read.partition, [])
    following = bisect.bisect_right(committed, before)
    if following < len(committed) and committed[following] < read.offset:
        kind = Kind.INTERNAL_SKIPPED_POLL if is_internal else Kind.EXTERNAL_SKIPPED_POLL
        value = facts.values[read.partition][committed[following]]
        yield Anomaly(kind, f"{what}, without {value} at {committed[following]}")


def _check_sends(facts: Facts) -> Iterator[Anomaly]:
    """A writer's records lie in the order in which it sent them, transaction after transaction."""
    #: For each writer and partition: offset, transaction and value, in the order of sending.
    sent: dict[tuple[str, str], list[tuple[int, int, int]]] = defaultdict(list)
    for transaction in facts.transactions:
        for write in transaction.writes:
            offset = facts.offset(write.value)
            if offset is not None:
                entry = (offset, transaction.number, write.value)
                sent[transaction.writer, write.partition].append(entry)
    for (writer, partition), entries in sent.items():
        for first, second in pairwise(entries):
            if second[0] <= first[0]:
                is_internal = first[1] == second[1]
                kind = Kind.INTERNAL_BACKWARD_SEND if is_internal else Kind.EXTERNAL_BACKWARD_SEND
                what = f"{writer} in {partition}: {second[2]} at {second[0]}, sent after "
                yield Anomaly(kind, f"{what}{first[2]} at {first[0]}")
        yield from _check_interleaving(writer, partition, sorted(entries))


def _check_interleaving(
    writer: str, partition: str, by_offset: list[tuple[int, int, int]]
) -> Iterator[Anomaly]:
    """No transaction comes back once another one of the same writer has begun."""
    ended: set[int] = set()
    for first, second in pairwise(by_offset):
        if first[1] != second[1]:
            ended.add(first[1])
            if second[1] in ended:
                what = f"{writer} in {partition}: {second[2]} at {second[0]} of {second[1]}"
                yield Anomaly(Kind.SKIPPED_SEND, f"{what} comes after {first[2]} of {first[1]}")
