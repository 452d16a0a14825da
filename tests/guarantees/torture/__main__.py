"""`script/torture`: many runs one after the other, a table, and what is left of failures."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import NoReturn

from guarantees.apart import report
from guarantees.copying.series import copy_all
from guarantees.torture.run import Plan, run
from guarantees.torture.separate import Outcome, run_apart

_COLUMNS = ("run", "seed", "done", "of v2", "aborted", "unknown", "reads", "faults", "s", "result")
#: Runs that do not count. More of them, and it is no matter of a slow machine any more.
_VOID_MAX = 3
_ROW = "{:>4} {:>12} {:>10} {:>6} {:>8} {:>8} {:>8} {:>7} {:>5}  {}"


def main() -> int:
    arguments = _arguments()
    directory = Path(arguments.directory).absolute()
    if arguments.one:
        _one(arguments, directory)
    if arguments.copy:
        return copy_all(arguments.broker, directory)
    first = arguments.seed if arguments.seed is not None else int(time.time())
    print(_ROW.format(*_COLUMNS), flush=True)
    failed = void = number = 0
    while number < arguments.runs:
        seed = str(first + number + void)
        outcome = run_apart(_plan(arguments, seed), directory / f"run-{seed}")
        if outcome.void and not outcome.complaints and void <= _VOID_MAX:
            void += 1
            print(f"     {seed:>12}  void: {outcome.void}", flush=True)
            continue
        number += 1
        failed += bool(outcome.complaints or outcome.void)
        print(_line(number, seed, outcome), flush=True)
    print(f"{number - failed} of {number} runs are right; {void} did not count.")
    return 1 if failed or void > _VOID_MAX else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="script/torture", description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="how long faults happen in a run"
    )
    parser.add_argument("--broker", choices=("drumlin", "kafka"), default="drumlin")
    parser.add_argument("--seed", type=int, help="of the first run; they count up")
    parser.add_argument("--directory", default="build/torture", help="where failures are kept")
    parser.add_argument("--copy", action="store_true", help="the exactly-once copy instead")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    return parser.parse_args()


def _plan(arguments: argparse.Namespace, seed: str) -> Plan:
    """A run counts with a transaction per second, and a fault in eight."""
    least = int(arguments.seconds)
    return Plan(seed, arguments.seconds, arguments.broker, (0.5, 3.0), least, max(1, least // 8))


def _one(arguments: argparse.Namespace, directory: Path) -> NoReturn:
    """One run in this process, and its outcome as JSON in the last line."""
    result = run(_plan(arguments, arguments.one), directory)
    report(Outcome.of(result).as_json())
    os._exit(0)  # clients that were given up would hold it


def _line(number: int, seed: str, outcome: Outcome) -> str:
    text = outcome.void or "right"
    if outcome.complaints:
        told = "\n".join(outcome.complaints).replace("\n", "\n        ")
        text = f"WRONG, kept in {outcome.directory}\n        {told}"
    faults = sum(outcome.faults.values())
    return _ROW.format(
        number,
        seed,
        outcome.committed,
        outcome.of_v2,
        outcome.aborted,
        outcome.unknown,
        outcome.reads,
        faults,
        round(outcome.seconds),
        text,
    )


if __name__ == "__main__":
    sys.exit(main())
