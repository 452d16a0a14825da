"""The checker finds what it must find, and nothing in histories that are right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from guarantees.histories.checker import Kind, check, summary
from guarantees.histories.history import History, Outcome, Read, Recorder, load
from guarantees.histories.simulated_log import CAUGHT_AS, Bug, Simulation
from rig.depth import first


def _committed(writer: str, number: int, *writes: tuple[str, int, int]) -> list[list[Any]]:
    """A transaction that went well, at time 10 * number: partition, value and offset of writes."""
    return _transaction(writer, number, "committed", *writes)


def _transaction(
    writer: str, number: int, end: str | None, *writes: tuple[str, int, int | None]
) -> list[list[Any]]:
    at = 10 * number
    events: list[list[Any]] = [["begin", at, writer, number]]
    for partition, value, offset in writes:
        events.append(["write", at, writer, number, partition, value])
        if offset is not None:
            events.append(["ack", at, writer, value, offset])
    if end in ("committed", "unknown"):
        events.append(["commit", at + 5, writer, number])
    if end in ("committed", "aborted"):
        events.append(["end", at + 6, writer, number, end])
    return events


def _polls(reader: str, *polls: list[tuple[str, int, int]], number: int | None = None) -> list[Any]:
    """Polls at the time 1000 and later, from the beginning: partition, offset and value."""
    events: list[Any] = [["jump", 999, reader, {"a": 0, "b": 0}]]
    return events + [["poll", 1000 + i, reader, number, reads] for i, reads in enumerate(polls)]


_THREE = (("a", 1, 0), ("a", 2, 1), ("a", 3, 2))
_ALL = [("a", 0, 1), ("a", 1, 2), ("a", 2, 3)]

#: What each history must be found guilty of, and of nothing else.
_CASES: dict[str, tuple[set[Kind], list[list[Any]]]] = {
    "clean": (set(), _committed("w", 1, *_THREE) + _polls("r", _ALL) + [["complete", 2000, "r"]]),
    "aborted read": (
        {Kind.ABORTED_READ},
        _transaction("w", 1, "aborted", *_THREE) + _polls("r", _ALL),
    ),
    "a transaction without an end is never seen": (
        {Kind.ABORTED_READ},
        _transaction("w", 1, None, *_THREE) + _polls("r", _ALL),
    ),
    "a reader of uncommitted data may see all that": (
        set(),
        [*_transaction("w", 1, "aborted", *_THREE), ["uncommitted", 0, "r"], *_polls("r", _ALL)],
    ),
    "an unknown outcome, and nothing seen": (
        set(),
        [*_transaction("w", 1, "unknown", *_THREE), ["complete", 2000, "r"]],
    ),
    "an unknown outcome, and all seen": (
        set(),
        _transaction("w", 1, "unknown", *_THREE) + _polls("r", _ALL) + [["complete", 2000, "r"]],
    ),
    "an unknown outcome, and a part seen": (
        {Kind.LOST_WRITE, Kind.EXTERNAL_SKIPPED_POLL},
        _transaction("w", 1, "unknown", *_THREE) + _polls("r", _ALL[1:]),
    ),
    "pre-committed read": (
        {Kind.PRECOMMITTED_READ},
        [*_committed("w", 1, *_THREE), ["poll", 12, "r", None, _ALL]],
    ),
    "it reads its own writes": (
        {Kind.PRECOMMITTED_READ},
        [*_committed("w", 1, *_THREE), ["poll", 14, "w", 1, _ALL[:1]]],
    ),
    "lost write": (
        {Kind.LOST_WRITE, Kind.INTERNAL_SKIPPED_POLL},
        _committed("w", 1, *_THREE) + _polls("r", [_ALL[0], _ALL[2]]),
    ),
    "lost write, whatever the reader": (
        {Kind.LOST_WRITE},
        [
            *_committed("w", 1, *_THREE),
            ["poll", 1000, "r", None, [_ALL[2]]],
            ["poll", 1001, "s", None, [_ALL[0]]],
        ],
    ),
    "unseen": (
        {Kind.UNSEEN},
        _committed("w", 1, *_THREE) + _polls("r", _ALL[:2]) + [["complete", 2000, "r"]],
    ),
    "not yet seen": (set(), _committed("w", 1, *_THREE) + _polls("r", _ALL[:2])),
    "inconsistent offsets, of acks": (
        {Kind.INCONSISTENT_OFFSETS},
        _committed("w", 1, ("a", 1, 0)) + _committed("v", 2, ("a", 2, 0)),
    ),
    "inconsistent offsets, of readers": (
        {Kind.INCONSISTENT_OFFSETS},
        _transaction("w", 1, "committed", ("a", 1, None))
        + _transaction("v", 2, "committed", ("a", 2, None))
        + [["poll", 1000, "r", None, [("a", 5, 1)]], ["poll", 1001, "s", None, [("a", 5, 2)]]],
    ),
    "duplicate": (
        {Kind.DUPLICATE},
        _committed("w", 1, ("a", 1, 0)) + _polls("r", [("a", 0, 1), ("a", 1, 1)]),
    ),
    "unwritten read": ({Kind.UNWRITTEN_READ}, _polls("r", [("a", 0, 7)])),
    "read in the wrong partition": (
        {Kind.UNWRITTEN_READ},
        _transaction("w", 1, "committed", ("a", 1, None)) + _polls("r", [("b", 0, 1)]),
    ),
    "skipped between polls": (
        {Kind.EXTERNAL_SKIPPED_POLL},
        _committed("w", 1, *_THREE) + _polls("r", _ALL[:1], _ALL[2:]) + _polls("s", _ALL),
    ),
    "skipped between polls of one transaction": (
        {Kind.INTERNAL_SKIPPED_POLL},
        _committed("w", 1, *_THREE) + _polls("r", _ALL[:1], _ALL[2:], number=9) + _polls("s", _ALL),
    ),
    "a jump skips nothing": (
        set(),
        _committed("w", 1, *_THREE)
        + _polls("r", _ALL[:1])
        + [["jump", 1001, "r", {"a": None}], ["poll", 1002, "r", None, _ALL[2:]]]
        + _polls("s", _ALL),
    ),
    "backward in a poll": (
        {Kind.INTERNAL_BACKWARD_POLL},
        _committed("w", 1, *_THREE) + _polls("r", [*_ALL, _ALL[0]]),
    ),
    "backward between polls": (
        {Kind.EXTERNAL_BACKWARD_POLL},
        _committed("w", 1, *_THREE) + _polls("r", _ALL, _ALL[2:]),
    ),
    "backward in a transaction": (
        {Kind.INTERNAL_BACKWARD_SEND},
        _committed("w", 1, ("a", 1, 5), ("a", 2, 4)),
    ),
    "backward between transactions": (
        {Kind.EXTERNAL_BACKWARD_SEND},
        _committed("w", 1, ("a", 1, 5)) + _committed("w", 2, ("a", 2, 4)),
    ),
    "an old transaction's record in the next one": (
        {Kind.SKIPPED_SEND, Kind.EXTERNAL_BACKWARD_SEND},
        _transaction("w", 1, "aborted", ("a", 1, 5)) + _committed("w", 2, ("a", 2, 4), ("a", 3, 6)),
    ),
    "records of others may lie between": (
        set(),
        _committed("w", 1, ("a", 1, 4), ("a", 3, 6)) + _committed("v", 2, ("a", 2, 5)),
    ),
}


@pytest.mark.parametrize("case", _CASES)
def test_cases(case: str) -> None:
    expected, events = _CASES[case]
    anomalies = check(History.of(events))
    assert {each.kind for each in anomalies} == expected, summary(anomalies)


def test_every_kind_has_a_case() -> None:
    assert set[Kind]().union(*(kinds for kinds, _ in _CASES.values())) == set(Kind)
    assert set[Kind]().union(*CAUGHT_AS.values()) == set(Kind)


@pytest.mark.parametrize("seed", range(25))
def test_right_histories_pass(seed: int) -> None:
    history = History.of(Simulation(seed).events)
    assert history.count(Outcome.COMMITTED) > 10
    assert history.count_reads() > 50
    anomalies = check(history)
    assert not anomalies, summary(anomalies)


@pytest.mark.parametrize("bug", first(4, Bug))
def test_bugs_are_caught(bug: Bug) -> None:
    """In every history in which the bug had an effect."""
    struck = 0
    for seed in range(20):
        simulation = Simulation(seed, bug)
        if simulation.struck:
            struck += 1
            anomalies = check(History.of(simulation.events))
            assert CAUGHT_AS[bug] & {each.kind for each in anomalies}, (seed, summary(anomalies))
    assert struck > 5


def test_tolerated_kinds_are_left_out() -> None:
    _, events = _CASES["duplicate"]
    assert not check(History.of(events), tolerated={Kind.DUPLICATE})


def test_files(tmp_path: Path) -> None:
    """Two processes, one of them killed in the midst of a line, and acks that come late."""
    writer, reader = Recorder(tmp_path / "writer"), Recorder(tmp_path / "reader")
    writer.begin("w", 1)
    writer.write("w", 1, "a", 1)
    writer.commit("w", 1)
    writer.end("w", 1, Outcome.COMMITTED)
    reader.jump("r", {"a": 0})
    reader.poll("r", None, [Read("a", 3, 1)])
    writer.ack("w", 1, 3)
    reader.complete("r")
    writer.begin("w", 2)
    for recorder in (writer, reader):
        recorder.close()
    with writer.path.open("a") as file:
        file.write('["commit",99')
    history = load(writer.path, reader.path)
    assert [each.outcome for each in history.transactions] == [Outcome.COMMITTED, Outcome.ABORTED]
    assert history.transactions[0].writes[0].offset == 3
    assert not check(history)
