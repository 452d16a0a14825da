"""`script/torture --sink`: many proofs one after the other, and what is left of failures."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import time
from pathlib import Path

from spark.sink_proof.plan import Plan
from spark.sink_proof.run import Result, prove

_ROW = "{:>4} {:>12} {:>9} {:>8} {:>23} {:>6} {:>6} {:>6} {:>5} {:>5}  {}"
_COLUMNS = (
    *("run", "seed", "broker", "shape", "master"),
    *("rows", "starts", "faults", "open", "s", "result"),
)
_BATCHES_A_SECOND = 50 / 60
_MASTERS = ("local[2,8]", "local-cluster[2,1,1024]")


def main() -> int:
    arguments = _arguments()
    first = arguments.seed if arguments.seed is not None else int(time.time())
    if not finds_what_is_written_twice(Path(arguments.directory).absolute() / "sink-twice"):
        print("The proof does not find rows that are there twice: it would prove nothing.")
        return 1
    print(_ROW.format(*_COLUMNS), flush=True)
    wrong = 0
    for number in range(arguments.runs):
        seed = str(first + number)
        plan = plan_of(seed, arguments.seconds, arguments.broker, arguments.delivery)
        result = prove(plan, Path(arguments.directory).absolute() / f"sink-{seed}")
        wrong += bool(result.complaints)
        print(_line(number + 1, result, arguments.directory), flush=True)
    print(f"{arguments.runs - wrong} of {arguments.runs} runs are right.")
    return 1 if wrong else 0


def finds_what_is_written_twice(directory: Path) -> bool:
    """Tasks that fail once they have written: at-least-once has all of their rows twice."""
    plan = Plan("twice", delivery="at-least-once", batches=4, failing_tasks=0.5)
    complaints = prove(plan, directory).complaints
    found = len(complaints) == 1 and "more often than they should be" in complaints[0]
    if found:
        shutil.rmtree(directory, ignore_errors=True)
    return found


def plan_of(seed: str, seconds: float, broker: str, delivery: str) -> Plan:
    """What a seed stands for."""
    chance = random.Random(f"{seed} plan")
    master = chance.choice(_MASTERS)
    batches = max(5, round(seconds * _BATCHES_A_SECOND))
    faults = ["driver", "jvm", "worker", "worker", "broker", chance.choice(["pause", "restart"])]
    if master.startswith("local-cluster"):
        faults += ["executor", "executor", "jvm"]
    return Plan(
        seed,
        broker,
        master,
        chance.choice(("copy", "copy", "windows", "updates")),
        delivery,
        batches,
        tasks=chance.choice((1, 3, 5)),
        faults=tuple(chance.sample(faults, max(1, min(len(faults), batches // 6)))),
        failing_tasks=chance.choice((0.0, 0.05, 0.2)),
        failing_commits=chance.choice((0.0, 0.1)),
        speculation=master.startswith("local-cluster") and chance.random() < 0.7,
        timeout_s=120 + 20 * seconds,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="script/torture --sink", description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="about how long a stream takes undisturbed"
    )
    parser.add_argument("--broker", default="drumlin", help="drumlin, kafka or kafka-3.0")
    parser.add_argument("--seed", type=int, help="of the first run; they count up")
    parser.add_argument("--delivery", default="exactly-once", help="of the sink")
    parser.add_argument("--directory", default="build/torture", help="where failures are kept")
    return parser.parse_args()


def _line(number: int, result: Result, directory: str) -> str:
    plan = result.plan
    text = "right"
    if result.complaints:
        told = "\n".join(result.complaints).replace("\n", "\n        ")
        text = f"WRONG, kept in {directory}/sink-{plan.seed}\n        {told}"
    return _ROW.format(
        number,
        plan.seed,
        plan.broker,
        plan.shape,
        plan.master,
        result.rows,
        result.query_starts,
        sum(result.faults.values()),
        len(result.left_open),
        round(result.seconds),
        text,
    )


if __name__ == "__main__":
    sys.exit(main())
