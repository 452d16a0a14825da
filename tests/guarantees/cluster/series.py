"""Runs in processes of their own, and what is reported of them.

A crash of a client voids its run: it says nothing about the brokers. So does a machine that is too
busy for enough to happen.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from guarantees import apart
from guarantees.cluster.plans import FAULTS
from guarantees.cluster.run import Plan, Result, run

#: More than a run may need after its faults: to heal, to read, and to compare.
_REST_S = 420.0


def run_apart(plan: Plan, directory: Path) -> Result:
    """Run it in a process of its own, and leave nothing of it running."""
    began, said = time.monotonic(), directory.with_suffix(".out")
    arguments = ["--one", plan.seed, "--seconds", str(plan.seconds), "--directory", str(directory)]
    arguments += ["--gap", *map(str, plan.gap_s)]
    arguments += ["--least", str(plan.faults_min), "--faults", *plan.faults]
    arguments += ["--first"] if plan.first else []
    arguments += ["--java"] if plan.has_java else []
    found = apart.run_apart("guarantees.cluster", arguments, said, plan.seconds + _REST_S)
    if found.result is not None:
        result = Result(**found.result)
    else:
        result = Result(complaints=[found.failure] if found.failure else [], void=found.void)
    result.seconds = time.monotonic() - began
    if not result.complaints and not result.void:
        said.unlink()
    return result


def run_here(plan: Plan, directory: Path) -> None:
    """Run it in this process, and report."""
    apart.report(asdict(run(plan, directory)))


def line(number: int, plan: Plan, result: Result) -> str:
    """A row of the table."""
    text = result.void or "right"
    if result.complaints:
        told = "\n".join([*result.complaints, *result.done]).replace("\n", "\n        ")
        text = f"WRONG, kept in {result.directory}\n        {told}"
    cells: list[Any] = [number, plan.seed]
    cells += [result.counts.get(each, 0) for each in _COUNTS]
    cells += [sum(result.faults.values()), result.elections, result.controllers]
    cells += [round(result.healed_s), round(result.seconds)]
    return ROW.format(*cells, text)


_COUNTS = ("committed", "transactions", "reads", "resumptions", "shared")
COLUMNS = (
    *("run", "seed", "records", "of txns", "reads", "resumed", "shared"),
    *("faults", "elections", "controllers", "healed s", "s", "result"),
)
ROW = "{:>4} {:>12} {:>8} {:>8} {:>9} {:>8} {:>7} {:>7} {:>10} {:>12} {:>9} {:>5}  {}"
ALL_FAULTS = tuple(FAULTS)
