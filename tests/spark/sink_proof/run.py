"""One proof from its start to its verdict: fill, stream, faults, and another client that reads."""

from __future__ import annotations

import random
import shutil
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from guarantees.brokers import Broker, address
from spark.sink_proof.brokers import make_broker, open_transactions, pause
from spark.sink_proof.driver import Driver
from spark.sink_proof.plan import PARTITIONS, SOURCE, TARGET, Plan
from spark.sink_proof.reading import Row, StillOpen, differences, read_committed
from spark.sink_proof.shapes import expected_rows, source_records
from spark.topics import Topic

_FAILURES_MAX = 3
_DELAY_S = (0.0, 1.5)


@dataclass
class Result:
    """What came of a proof."""

    plan: Plan
    complaints: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    #: Of queries, within the program: commits that failed end a query.
    query_starts: int = 0
    seconds: float = 0.0
    rows: int = 0
    #: Transactions that nobody had ended when the stream had come to its end.
    left_open: list[str] = field(default_factory=list)


def prove(plan: Plan, folder: Path) -> Result:
    """Do it. The folder is removed if all is right, else it keeps outputs and data."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    result, began = Result(plan), time.monotonic()
    broker = make_broker(plan, folder)
    driver = None
    try:
        broker.start()
        _fill(plan, address(broker))
        driver = Driver([plan.as_text(), address(broker), str(folder)], folder / "driver.out")
        driver.start()
        _torture(plan, broker, driver, folder, result)
        _compare(plan, broker, folder, result)
    except Exception as failure:
        result.complaints.append("".join(traceback.format_exception(failure)))
    finally:
        if driver is not None:
            driver.close()
            result.query_starts = driver.said().count(" of the query\n")
        broker.close()
        result.complaints += _traces(broker)
        result.seconds = time.monotonic() - began
    if result.complaints:
        (folder / "complaints.txt").write_text("\n".join(result.complaints))
    else:
        shutil.rmtree(folder)
    return result


def _traces(broker: Broker) -> list[str]:
    """Nothing that a client does may show as a traceback of Drumlin's."""
    _, found, trace = broker.said().partition("Traceback (most recent call last)")
    return [f"a traceback of the broker: {trace[:3000]}"] if found else []


def _fill(plan: Plan, bootstrap: str) -> None:
    source = Topic(bootstrap, PARTITIONS, SOURCE).create()
    source.write(source_records(plan))
    Topic(bootstrap, PARTITIONS, TARGET).create()


def _torture(plan: Plan, broker: Broker, driver: Driver, folder: Path, result: Result) -> None:
    """Faults spread over the batches; each strikes at some moment of one of them."""
    chance = random.Random(plan.seed)
    waiting = list(plan.faults)
    chance.shuffle(waiting)
    step = plan.batches / (len(waiting) + 1)
    deadline = time.monotonic() + plan.timeout_s
    while not driver.is_through():
        if time.monotonic() > deadline:
            result.complaints.append(
                f"{_batches(folder)} of {plan.batches} batches after {plan.timeout_s} s"
            )
            return
        if driver.failures > _FAILURES_MAX:
            result.complaints.append(f"the driver ends by itself: {driver.said()[-3000:]}")
            return
        done = len(plan.faults) - len(waiting)
        if waiting and _batches(folder) >= step * (done + 0.5):
            time.sleep(chance.uniform(*_DELAY_S))
            fault = waiting.pop()
            if _strikes(broker, driver, chance)[fault]():
                result.faults[fault] += 1
        time.sleep(0.02)
    if waiting:
        result.complaints.append(f"all was through before {', '.join(waiting)}")


def _batches(folder: Path) -> int:
    """How many batches Spark has seen the end of."""
    return len(list((folder / "checkpoint" / "commits").glob("[0-9]*")))


def _strikes(
    broker: Broker, driver: Driver, chance: random.Random
) -> dict[str, Callable[[], bool]]:
    """What can be done from outside; whether it met anybody."""

    def restarted(end: Callable[[], object]) -> bool:
        end()
        broker.start()
        return True

    return {
        "driver": driver.kill,
        "jvm": driver.kill_jvm,
        "executor": lambda: driver.kill_executor(chance),
        "worker": lambda: driver.kill_worker(chance),
        "broker": lambda: restarted(broker.kill),
        "restart": lambda: restarted(lambda: broker.terminate(60)),
        "pause": lambda: pause(broker, chance.uniform(0.2, 3.0)),
    }


def _compare(plan: Plan, broker: Broker, folder: Path, result: Result) -> None:
    """What is left open is for the time-out to end; it must not stay for ever."""
    result.left_open = open_transactions(broker)
    patience_s = 30 + plan.transaction_timeout_ms / 1000
    try:
        rows = read_committed(address(broker), TARGET, PARTITIONS, patience_s)
    except StillOpen as hanging:
        result.complaints.append(str(hanging))
        return
    result.rows = len(rows)
    if plan.shape != "copy":  # the rest is what this client says
        rows = [Row(each.key, each.value) for each in rows]
    result.complaints += differences(expected_rows(plan, folder / "checkpoint"), rows)
