"""What happens within the processes of a proof: a line each, from the process concerned.

It tells whether a proof has met what it set out to meet: a commit that was cut in two, a twin that
wrote as well. It says nothing about the rows: those are read from the topic.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

_POLL_S = 0.002

Entry = dict[str, Any]


class Journal:
    """A file that all processes of a proof append to."""

    def __init__(self, folder: str | Path) -> None:
        self._path = Path(folder, "journal")

    def note(self, event: str, **facts: object) -> None:
        """One line in one write, so that those of other processes do not come between."""
        line = json.dumps({"event": event, "at": time.time(), **facts}) + "\n"
        with self._path.open("ab", buffering=0) as file:
            file.write(line.encode())

    def entries(self) -> list[Entry]:
        if not self._path.exists():
            return []
        return [json.loads(line) for line in self._path.read_text().splitlines()]

    def tally(self) -> Tally:
        return tally(self.entries())

    def await_next(self, event: str, timeout_s: float) -> bool:
        """Whether it is noted, from now on and in time."""
        self._path.touch()
        sign, deadline = json.dumps({"event": event})[:-1].encode(), time.monotonic() + timeout_s
        with self._path.open("rb") as file:
            file.seek(0, 2)
            while time.monotonic() < deadline:
                if sign in file.read():
                    return True
                time.sleep(_POLL_S)
        return False


class Tally(NamedTuple):
    """What a journal comes to.

    Attributes:
        attempts, retries: of tasks; attempts after the first.
        repeated: attempts whose number was there before, as Spark ran their stage again.
        struck: what was made to fail from within, by place and kind.
        twins: tasks of which a second attempt has written while the first was hanging.
        failed: commits that raised.
        cut: commits that a kill has ended, by how far they had come.
        aborts: called with the messages of all tasks, so after a commit that failed.
        late: commits by a run that another run had overtaken already.
    """

    attempts: int
    retries: int
    repeated: int
    struck: Counter[str]
    twins: int
    failed: int
    cut: Counter[str]
    aborts: int
    late: int


def tally(entries: Iterable[Entry]) -> Tally:
    """Count it all."""
    known = list(entries)
    begun = Counter((*_task(e), e["attempt"]) for e in known if e["event"] == "task begun")
    commits = _commits(known)
    aborts = [each["is_whole"] for each in known if each["event"] == "abort begun"]
    struck = Counter(f"{e['place']} {e['how']}" for e in known if e["event"] == "struck")
    return Tally(
        begun.total(),
        sum(count for (*_, attempt), count in begun.items() if attempt > 0),
        sum(count - 1 for count in begun.values()),
        struck,
        _twins(known),
        sum(each.error is not None for each in commits),
        Counter(each.phase for each in commits if not each.has_ended),
        sum(aborts),
        _late(known),
    )


class _Commit(NamedTuple):
    phase: str
    has_ended: bool
    error: str | None


def _commits(entries: list[Entry]) -> list[_Commit]:
    found: dict[str, _Commit] = {}
    for each in entries:
        number = each.get("commit")
        if number is None:
            continue
        if each["event"] == "commit begun":
            found[number] = _Commit("undecided", has_ended=False, error=None)
        elif each["event"] == "commit ended":
            found[number] = found[number]._replace(has_ended=True, error=each["error"])
        elif each["request"] == "CommitDriver":
            phase = "deciding" if each["event"] == "asked" else "decided"
            if found[number].phase != "decided":  # the second one is that of the done mark
                found[number] = found[number]._replace(phase=phase)
    return list(found.values())


def _twins(entries: list[Entry]) -> int:
    """Tasks that hang have written, and what writes meanwhile is Spark's second attempt."""
    hanging: dict[tuple[Any, ...], float] = {}
    twins = set()
    for each in entries:
        if each["event"] == "task hangs":
            hanging[_task(each)] = each["until"]
        elif each["event"] == "task wrote" and each["at"] < hanging.get(_task(each), 0.0):
            twins.add(_task(each))
    return len(twins)


def _task(entry: Entry) -> tuple[Any, ...]:
    return entry["run"], entry["stage"], entry["partition"]


def _late(entries: list[Entry]) -> int:
    """Runs are as old as their first commits. One that is overtaken was asleep, or left alone."""
    runs: list[str] = []
    late = set()
    for each in entries:
        if each["event"] not in ("commit begun", "commit ended"):
            continue
        if each["run"] not in runs:
            runs.append(each["run"])
        elif each["run"] != runs[-1]:
            late.add(each["commit"])
    return len(late)
