"""One proof from its start to its verdict: fill, stream, faults, and another client that reads."""

from __future__ import annotations

import contextlib
import random
import shutil
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from guarantees.brokers import Broker, address
from spark.sink_proof.brokers import has_lost_a_marker, make_broker, open_transactions
from spark.sink_proof.driver import Driver
from spark.sink_proof.journal import Journal, Tally, tally
from spark.sink_proof.plan import PARTITIONS, SOURCE, STANDALONE, TARGET, Plan
from spark.sink_proof.reading import Row, StillOpen, differences, read_committed
from spark.sink_proof.shapes import expected_rows, source_records
from spark.sink_proof.standalone import StandaloneCluster
from spark.sink_proof.striking import Striker
from spark.topics import Topic

_FAILURES_MAX = 3
#: What is to be expected that often must have been seen.
_SURE = 5


@dataclass
class Result:
    """What came of a proof."""

    plan: Plan
    complaints: list[str] = field(default_factory=list)
    #: From outside, by kind, if they have met anybody.
    faults: Counter[str] = field(default_factory=Counter)
    #: Of drivers: those that were killed or replaced are started again.
    driver_starts: int = 0
    #: Of queries, within the programs: commits that failed end a query.
    query_starts: int = 0
    batches: int = 0
    seconds: float = 0.0
    rows: int = 0
    tally: Tally = field(default_factory=lambda: tally([]))
    #: Transactions that were not ended when the stream had come to its end.
    left_open: list[str] = field(default_factory=list)
    #: Why the run proves nothing, if the broker itself was at fault.
    void: str = ""
    #: What the plan has set out to meet and has not met: then nothing is proven of it.
    unseen: list[str] = field(default_factory=list)


def prove(plan: Plan, folder: Path) -> Result:
    """Do it. The folder is removed if all is right, else it keeps outputs and data."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    result, began = Result(plan), time.monotonic()
    broker = make_broker(plan, folder)
    try:
        broker.start()
        _fill(plan, address(broker))
        with _driver(plan, broker, folder, result) as driver:
            if _torture(plan, broker, driver, folder, result):
                _compare(plan, broker, folder, result)
    except Exception as failure:
        result.complaints.append("".join(traceback.format_exception(failure)))
    finally:
        broker.close()
        result.tally = Journal(folder).tally()
        result.complaints += _traces(broker)
        result.seconds = time.monotonic() - began
    result.unseen = unseen(result)
    if result.complaints:
        (folder / "complaints.txt").write_text("\n".join(result.complaints))
    else:
        shutil.rmtree(folder)
    return result


@contextlib.contextmanager
def _driver(plan: Plan, broker: Broker, folder: Path, result: Result) -> Iterator[Driver]:
    """The driver, started, with the cluster that it needs."""
    with contextlib.ExitStack() as stack:
        elsewhere: set[int] = set()
        if plan.master == STANDALONE:
            cluster = StandaloneCluster(folder)
            stack.callback(cluster.close)
            cluster.start()
            elsewhere, plan = cluster.sessions, replace(plan, master=cluster.url)
        arguments = [plan.as_text(), address(broker), str(folder)]
        driver = Driver(arguments, folder / "driver.out", elsewhere)
        stack.callback(driver.close)
        driver.start()
        try:
            yield driver
        finally:
            result.driver_starts = driver.starts
            result.query_starts = driver.said().count(" of the query\n")


def _traces(broker: Broker) -> list[str]:
    """Nothing that a client does may show as a traceback of Drumlin's."""
    _, found, trace = broker.said().partition("Traceback (most recent call last)")
    return [f"a traceback of the broker: {trace[:3000]}"] if found else []


def _fill(plan: Plan, bootstrap: str) -> None:
    source = Topic(bootstrap, PARTITIONS, SOURCE).create()
    source.write(source_records(plan))
    Topic(bootstrap, PARTITIONS, TARGET).create()


def _torture(plan: Plan, broker: Broker, driver: Driver, folder: Path, result: Result) -> bool:
    """Faults spread over the batches; each strikes at some moment of one of them.

    Whether the stream has come to its end: else there is nothing to compare.
    """
    chance = random.Random(plan.seed)
    waiting = list(plan.faults)
    chance.shuffle(waiting)
    step = plan.batches / (len(waiting) + 1)
    striker = Striker(plan.seed, broker, driver, Journal(folder))
    deadline = time.monotonic() + plan.batch_s
    while not driver.is_through():
        before, result.batches = result.batches, _batches(folder)
        if result.batches > before:
            deadline = time.monotonic() + plan.batch_s
        if time.monotonic() > deadline:
            result.complaints.append(f"no end of batch {result.batches} within {plan.batch_s} s")
            return False
        if driver.failures > _FAILURES_MAX:
            result.complaints.append(f"the driver ends by itself: {driver.said()[-3000:]}")
            return False
        done = len(plan.faults) - len(waiting)
        if waiting and result.batches >= step * (done + 0.5):
            fault = waiting.pop()
            if striker.strike(fault):
                result.faults[fault] += 1
        time.sleep(0.02)
    result.batches = _batches(folder)
    if waiting:
        result.complaints.append(f"all was through before {', '.join(waiting)}")
    return True


def _batches(folder: Path) -> int:
    """How many batches Spark has seen the end of."""
    return len(list((folder / "checkpoint" / "commits").glob("[0-9]*")))


def _compare(plan: Plan, broker: Broker, folder: Path, result: Result) -> None:
    """What is left open is for the time-out to end; it must not stay for ever."""
    result.left_open = open_transactions(broker)
    patience_s = 30 + plan.transaction_timeout_ms / 1000
    try:
        rows = read_committed(address(broker), TARGET, PARTITIONS, patience_s)
    except StillOpen as hanging:
        if has_lost_a_marker(broker):
            result.void = f"{hanging}: the broker has lost a marker when it was killed"
        else:
            result.complaints.append(str(hanging))
        return
    result.rows = len(rows)
    if plan.shape != "copy":  # the rest is what this client says
        rows = [Row(each.key, each.value) for each in rows]
    result.complaints += differences(expected_rows(plan, folder / "checkpoint"), rows)


def unseen(result: Result) -> list[str]:
    """What a run was to meet, and has not; chance and a slow machine can be why."""
    plan, seen = result.plan, result.tally
    commits_struck = sum(seen.struck[f"commit {how}"] for how in ("raise", "kill", "kill all"))
    failing_tasks = plan.failing_tasks * plan.batches * plan.tasks
    needed = {
        f"{plan.batches} batches": result.batches >= plan.batches,
        "a task that is run again": failing_tasks < _SURE or seen.retries > 0,
        "a commit that fails": plan.failing_commits * plan.batches < _SURE or commits_struck > 0,
        "an abort after a failed commit": seen.failed < _SURE or seen.aborts > 0,
        "a task with a twin": not plan.speculation or failing_tasks < _SURE or seen.twins > 0,
    }
    return [f"it was to meet {what}, and has not" for what, is_met in needed.items() if not is_met]
