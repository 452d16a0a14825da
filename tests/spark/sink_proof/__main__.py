"""`script/torture --sink`: many proofs one after the other, and what is left of failures."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import time
from collections import Counter
from pathlib import Path

from spark.sink_proof.plan import STANDALONE, Plan
from spark.sink_proof.run import Result, prove

_ROW = "{:>4} {:>12} {:>9} {:>8} {:>23} {:>7} {:>6} {:>7} {:>7} {:>5} {:>5}  {}"
_COLUMNS = (
    *("run", "seed", "broker", "shape", "master", "batches", "rows"),
    *("drivers", "queries", "open", "s", "result"),
)
_BATCHES_A_SECOND = 50 / 60
#: Runs that have not met what they were to meet. More, and it is no matter of chance any more.
_UNSEEN_MAX = 5
_MASTERS = {
    "local": "local[2,8]",
    "local-cluster": "local-cluster[2,1,1024]",
    STANDALONE: STANDALONE,
}
_SHAPES = ("copy", "windows", "updates")


def main() -> int:
    arguments = _arguments()
    first = arguments.seed if arguments.seed is not None else int(time.time())
    if not finds_what_is_written_twice(Path(arguments.directory).absolute() / "sink-twice"):
        print("The proof does not find rows that are there twice: it would prove nothing.")
        return 1
    print(_ROW.format(*_COLUMNS), flush=True)
    number = wrong = void = unseen = 0
    while number < arguments.runs and unseen <= _UNSEEN_MAX:
        seed = str(first + number + unseen)
        result = prove(
            plan_of(seed, arguments), Path(arguments.directory).absolute() / f"sink-{seed}"
        )
        if result.unseen and not result.complaints:
            unseen += 1
        else:
            number += 1
            wrong += bool(result.complaints)
            void += bool(result.void)
        print(_line(number, result, arguments.directory), flush=True)
    right = number - wrong - void
    print(f"{right} of {number} runs are right, {void} void; {unseen} did not count.")
    return 1 if wrong or unseen > _UNSEEN_MAX else 0


def finds_what_is_written_twice(directory: Path) -> bool:
    """Tasks that fail once they have written: at-least-once has all of their rows twice."""
    plan = Plan("twice", delivery="at-least-once", batches=4, failing_tasks=0.5)
    complaints = prove(plan, directory).complaints
    found = len(complaints) == 1 and "more often than they should be" in complaints[0]
    if found:
        shutil.rmtree(directory, ignore_errors=True)
    return found


def plan_of(seed: str, arguments: argparse.Namespace) -> Plan:
    """What a seed stands for, but for what the arguments say."""
    chance = random.Random(f"{seed} plan")
    master = chance.choice(tuple(_MASTERS))
    shape = chance.choice(("copy", *_SHAPES))
    master, shape = arguments.master or master, arguments.shape or shape
    batches = max(5, round(arguments.seconds * _BATCHES_A_SECOND))
    faults = ["driver", "jvm", "program", "sleep", "worker", "worker", "broker", "broker"]
    faults.append(chance.choice(["pause", "restart"]))
    if master != "local":
        faults += ["executor", "executor"]
    return Plan(
        seed,
        arguments.broker,
        _MASTERS[master],
        shape,
        arguments.delivery,
        batches,
        tasks=chance.choice((2, 3, 5)),
        faults=tuple(chance.sample(faults, max(1, min(len(faults), batches // 5)))),
        failing_tasks=chance.choice((0.05, 0.1, 0.2)),
        failing_commits=chance.choice((0.1, 0.2)),
        speculation=master == STANDALONE,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="script/torture --sink", description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="about how long a stream takes undisturbed"
    )
    parser.add_argument("--broker", default="drumlin", help="drumlin, kafka or kafka-3.0")
    parser.add_argument("--master", choices=_MASTERS, help="instead of one by the seed")
    parser.add_argument("--shape", choices=_SHAPES, help="likewise")
    parser.add_argument("--seed", type=int, help="of the first run; they count up")
    parser.add_argument("--delivery", default="exactly-once", help="of the sink")
    parser.add_argument("--directory", default="build/torture", help="where failures are kept")
    return parser.parse_args()


def _line(number: int, result: Result, directory: str) -> str:
    plan = result.plan
    text = f"void: {result.void}" if result.void else "right"
    if result.unseen:
        text = f"does not count: {'; '.join(result.unseen)}"
    if result.complaints:
        told = "\n".join(result.complaints).replace("\n", "\n        ")
        text = f"WRONG, kept in {directory}/sink-{plan.seed}\n        {told}"
    row = _ROW.format(
        number,
        plan.seed,
        plan.broker,
        plan.shape,
        plan.master.partition("[")[0],
        result.batches,
        result.rows,
        result.driver_starts,
        result.query_starts,
        len(result.left_open),
        round(result.seconds),
        text,
    )
    return f"{row}\n{_met(result)}"


def _met(result: Result) -> str:
    """What the run has been through."""
    seen = result.tally
    tasks = f"{seen.attempts} attempts, {seen.retries} retries, {seen.twins} twins"
    tasks += f", {seen.repeated} in repeated stages"
    commits = f"{seen.failed} raised, {_kinds(seen.cut)} cut, {seen.late} late"
    lines = {
        "from outside": _kinds(result.faults),
        "from within": _kinds(seen.struck),
        "tasks": tasks,
        "commits": f"{commits}; {seen.aborts} times abort after one",
    }
    return "\n".join(f"     {name}: {text}" for name, text in lines.items())


def _kinds(counts: Counter[str]) -> str:
    found = [f"{count} {kind}" for kind, count in sorted(counts.items()) if count]
    return ", ".join(found) or "none"


if __name__ == "__main__":
    sys.exit(main())
