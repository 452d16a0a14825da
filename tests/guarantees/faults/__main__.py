"""`script/torture --faults`: runs one after the other, and how long the broker took to be whole."""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

from guarantees.faults.run import FAULTS, Plan, run


def main() -> int:
    arguments = _arguments()
    first = arguments.seed if arguments.seed is not None else int(time.time())
    failed = 0
    for number in range(arguments.runs):
        seed = str(first + number)
        faults = arguments.faults or list(FAULTS)
        random.Random(seed).shuffle(faults)
        plan = Plan(seed, arguments.lasts, arguments.heals, tuple(faults))
        directory = Path(arguments.directory).absolute() / f"run-{seed}"
        result = run(plan, directory)
        print(f"run {number + 1}, seed {seed}: {sum(result.steps.values())} steps of clients")
        for described, (hits, took_s) in result.healed.items():
            print(f"  {described:<45} {hits:>6} calls failed, whole after {took_s:5.1f} s")
        if result.complaints:
            failed += 1
            told = "\n".join(result.complaints).replace("\n", "\n    ")
            print(f"  WRONG, kept in {directory}\n    {told}")
        sys.stdout.flush()
    print(f"{arguments.runs - failed} of {arguments.runs} runs are right.")
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="script/torture --faults", description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seed", type=int, help="of the first run; they count up")
    parser.add_argument("--lasts", type=float, default=10.0, help="seconds of each shortage")
    parser.add_argument("--heals", type=float, default=10.0, help="seconds until all is well")
    parser.add_argument("--faults", nargs="*", choices=list(FAULTS))
    parser.add_argument("--directory", default="build/faults", help="where failures are kept")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
