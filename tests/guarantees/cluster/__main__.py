"""`script/torture --cluster`: many runs, a table of them, and what is left of those that failed."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from guarantees.cluster.plans import FIRST
from guarantees.cluster.run import Plan
from guarantees.cluster.series import ALL_FAULTS, COLUMNS, ROW, line, run_apart, run_here

#: Runs that do not count. More of them, and it is no matter of a slow machine any more.
_VOID_MAX = 3


def main() -> int:
    arguments = _arguments()
    directory = Path(arguments.directory).absolute()
    if arguments.one:
        run_here(_plan(arguments, arguments.one), directory)
        os._exit(0)  # clients that were given up would hold it
    first = arguments.seed if arguments.seed is not None else int(time.time())
    print(ROW.format(*COLUMNS), flush=True)
    failed = void = number = 0
    while number < arguments.runs:
        plan = _plan(arguments, str(first + number + void))
        result = run_apart(plan, directory / f"run-{plan.seed}")
        if result.void and not result.complaints and void <= _VOID_MAX:
            void += 1
            print(f"     {plan.seed:>12}  void: {result.void}", flush=True)
            continue
        number += 1
        failed += bool(result.complaints or result.void)
        print(line(number, plan, result), flush=True)
    print(f"{number - failed} of {number} runs are right; {void} did not count.")
    return 1 if failed or void > _VOID_MAX else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="script/torture --cluster", description=__doc__)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument(
        "--seconds", type=float, default=120.0, help="how long faults happen in a run"
    )
    parser.add_argument("--seed", type=int, help="of the first run; they count up")
    parser.add_argument("--faults", nargs="+", choices=ALL_FAULTS, default=ALL_FAULTS)
    parser.add_argument(
        "--gap", nargs=2, type=float, default=(0.5, 4.0), help="seconds between faults"
    )
    parser.add_argument("--least", type=int, help="faults that a run must have to count")
    parser.add_argument("--first", action="store_true", help="begin with what no run may lack")
    parser.add_argument("--java", action="store_true", help="with a writer of Kafka's own client")
    parser.add_argument(
        "--directory", default="build/cluster", help="where what has failed is kept"
    )
    parser.add_argument("--one", help=argparse.SUPPRESS)
    return parser.parse_args()


def _plan(arguments: argparse.Namespace, seed: str) -> Plan:
    """A run counts with a fault in twelve seconds, and an election."""
    least = arguments.least or max(1, int(arguments.seconds) // 12)
    return Plan(
        seed,
        arguments.seconds,
        gap_s=tuple(arguments.gap),
        first=FIRST if arguments.first else (),
        faults=tuple(arguments.faults),
        faults_min=least,
        has_java=arguments.java,
    )


if __name__ == "__main__":
    sys.exit(main())
