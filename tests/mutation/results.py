"""What came of the mutants when they last ran: a table, kept with them as `results.tsv`."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Final

RESULTS: Final = Path(__file__).parent / "results.tsv"


class Outcome(StrEnum):
    """What the tests of a mutant made of it."""

    KILLED = "killed"  # a test failed
    TIMED_OUT = "timed out"  # as good: they pass in time without it
    SURVIVED = "survived"
    BROKEN = "broken"  # no test ran: nothing is shown, and the mutant is to be mended
    FAILS_ANYWAY = "fails anyway"  # its tests fail without it, too: nothing is shown

    @property
    def is_noticed(self) -> bool:
        return self in (Outcome.KILLED, Outcome.TIMED_OUT)


class Results:
    """By the ids of mutants; the file is written anew with each result."""

    def __init__(self, path: Path, of: dict[str, Outcome]) -> None:
        self.of = of
        self._path = path

    @classmethod
    def load(cls, path: Path) -> Results:
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        pairs = (each.split("\t") for each in lines)
        return cls(path, {id_: Outcome(outcome) for id_, outcome in pairs})

    def forget_all_but(self, ids: Iterable[str]) -> None:
        """What is not in a list any more is no result."""
        kept = frozenset(ids)
        self.of = {id_: each for id_, each in self.of.items() if id_ in kept}

    def keep(self, id_: str, outcome: Outcome) -> None:
        self.of[id_] = outcome
        written = self._path.with_suffix(".tmp")
        written.write_text("".join(f"{a}\t{b}\n" for a, b in sorted(self.of.items())), "utf-8")
        written.replace(self._path)
