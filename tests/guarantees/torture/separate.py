"""Runs in processes of their own, and what is reported of them.

A crash of a client voids its run: it says nothing about the broker. So does a machine that is too
busy for enough to happen.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from guarantees import apart
from guarantees.histories import history
from guarantees.torture.run import JAVA, Plan, Result


@dataclass
class Outcome:
    """The report of a run."""

    committed: int = 0
    #: Of them, transactions v2 (KIP-890).
    of_v2: int = 0
    aborted: int = 0
    unknown: int = 0
    reads: int = 0
    seconds: float = 0.0
    faults: dict[str, int] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    directory: str = ""
    #: Why it does not count, if it does not.
    void: str = ""

    @classmethod
    def of(cls, result: Result) -> Outcome:
        found = result.history
        return cls(
            committed=found.count(history.Outcome.COMMITTED),
            of_v2=found.count(history.Outcome.COMMITTED, JAVA),
            aborted=found.count(history.Outcome.ABORTED),
            unknown=found.count(history.Outcome.UNKNOWN),
            reads=found.count_reads(),
            faults=result.faults,
            complaints=result.complaints,
            directory=str(result.directory or ""),
            void=result.shortfall,
        )

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def run_apart(plan: Plan, directory: Path) -> Outcome:
    """Run it in a process of its own, and leave nothing of it running."""
    began = time.monotonic()
    said = directory.with_suffix(".out")
    found = apart.run_apart(
        "guarantees.torture",
        [
            *("--one", plan.seed, "--seconds", str(plan.seconds)),
            *("--broker", plan.broker, "--directory", str(directory)),
        ],
        said,
        plan.seconds + 300,
    )
    if found.result is not None:
        outcome = Outcome(**found.result)
    else:
        outcome = Outcome(complaints=[found.failure] if found.failure else [], void=found.void)
    outcome.seconds = time.monotonic() - began
    if not outcome.complaints and not outcome.void:
        said.unlink()
    return outcome
