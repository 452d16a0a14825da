"""One run: a broker, its clients and its faults for some seconds, and what the checker says."""

from __future__ import annotations

import random
import shutil
import threading
import traceback
from dataclasses import dataclass, field
from pathlib import Path

from guarantees.brokers import Broker, Faults, address, create_topics, make_broker
from guarantees.ending import SETTLE_S, joined
from guarantees.histories.checker import check, summary
from guarantees.histories.history import History, Outcome, Recorder, load
from guarantees.torture.java_writer import JavaWriter
from guarantees.torture.readers import AssignedReader, Mover, SubscribedReader, read_to_the_end
from guarantees.torture.writers import TRANSACTION_TIMEOUT_MS, Writer
from rig.data.raw import RawClient

_TOPICS = {"a": 3, "b": 2}
#: Keys are unique, so compaction removes nothing but what was aborted, and markers.
#: With fsyncs on the way, the end of a transaction takes long enough for a kill to hit it.
_CONFIGS = {
    "a": {"segment.bytes": "1048576"},
    "b": {"cleanup.policy": "compact", "flush.messages": "1"},
}
_PARTITIONS = [(topic, number) for topic, count in _TOPICS.items() for number in range(count)]
JAVA = "writer-java"


@dataclass(frozen=True)
class Plan:
    """What a run does, and the least that it must have done to count."""

    seed: str
    seconds: float
    broker: str = "drumlin"
    gap_s: tuple[float, float] = (0.5, 3.0)
    transactions_min: int = 20
    faults_min: int = 2


@dataclass
class Result:
    """What came of a run; without complaints and shortfall it counts and proves."""

    plan: Plan
    history: History = field(default_factory=History)
    faults: dict[str, int] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    #: Of the producer with transactions v2, whose epoch goes up with each transaction.
    java_epoch: int = 0
    #: Why it does not count: too little has happened.
    shortfall: str = ""
    directory: Path | None = None

    @property
    def is_right(self) -> bool:
        return not self.complaints


def run(plan: Plan, directory: Path) -> Result:
    """Do it. The directory is removed if all is right, else it keeps history and data."""
    shutil.rmtree(directory, ignore_errors=True)
    broker = make_broker(plan.broker, directory)
    recorder = Recorder(directory / "history.jsonl")
    result = Result(plan)
    try:
        broker.start()
        create_topics(broker, _TOPICS, _CONFIGS)
        _torture(plan, broker, recorder, result, directory)
    except Exception as failure:
        result.complaints.append("".join(traceback.format_exception(failure)))
    finally:
        broker.close()
        recorder.close()
    result.complaints += _traces(broker)
    _judge(result, recorder)
    if result.is_right:
        shutil.rmtree(directory)
    else:
        result.directory = directory
        (directory / "complaints.txt").write_text("\n".join(result.complaints))
    return result


def _clients(
    plan: Plan,
    bootstrap: str,
    recorder: Recorder,
    commit_asked: threading.Event,
    directory: Path,
) -> tuple[list[Writer], list[_Reading]]:
    seed = plan.seed
    protocol = random.Random(seed).choice(("range", "cooperative-sticky", "consumer"))
    mover = Mover("mover", bootstrap, [at for at in _PARTITIONS if at[0] == "a"], recorder)
    into_b = [at for at in _PARTITIONS if at[0] == "b"]
    common = (bootstrap, _PARTITIONS, recorder, seed)
    writers = [
        Writer("writer-1", *common, commit_asked),
        Writer("writer-2", *common, commit_asked),
        Writer("writer-3", bootstrap, into_b, recorder, seed, commit_asked, mover),
        JavaWriter(JAVA, *common, commit_asked, output=directory / "java.out"),
    ]
    topics = list(_TOPICS)
    readers: list[_Reading] = [
        AssignedReader("assigned", *common),
        AssignedReader("uncommitted", *common, isolation="read_uncommitted"),
        SubscribedReader("member-1", bootstrap, topics, recorder, seed, protocol),
        SubscribedReader("member-2", bootstrap, topics, recorder, seed, protocol),
    ]
    return writers, readers


_Reading = AssignedReader | SubscribedReader


def _torture(
    plan: Plan, broker: Broker, recorder: Recorder, result: Result, directory: Path
) -> None:
    bootstrap = address(broker)
    faults = Faults(broker, f"{plan.seed} faults", plan.gap_s)
    writers, readers = _clients(plan, bootstrap, recorder, faults.commit_asked, directory)
    for each in (*readers, *writers):
        each.start()
    faults.start()
    try:
        threading.Event().wait(plan.seconds)
    finally:
        faults.stop()
        result.faults = dict(faults.counts)
    result.complaints += joined(writers)
    result.java_epoch = _epoch(bootstrap)
    timeout_s = SETTLE_S + TRANSACTION_TIMEOUT_MS / 1000
    complaint = read_to_the_end("last", bootstrap, _PARTITIONS, recorder, timeout_s)
    result.complaints += [complaint] if complaint else []
    result.complaints += joined(readers)


def _epoch(bootstrap: str) -> int:
    """The last epoch of the writer with Apache Kafka's own client."""
    with RawClient(int(bootstrap.rpartition(":")[2])) as client:
        answer = client.ask("describe_transactions", 0, transactional_ids=(JAVA,))
    (state,) = answer.transaction_states
    return int(state.producer_epoch)


def _traces(broker: Broker) -> list[str]:
    position = broker.said().find("Traceback (most recent call last)")
    return [f"a traceback of the broker:\n{broker.said()[position:][:3000]}"] * (position >= 0)


def _judge(result: Result, recorder: Recorder) -> None:
    plan = result.plan
    history = result.history = load(recorder.path)
    anomalies = check(history)
    if anomalies:
        result.complaints.append(summary(anomalies))
    committed, faults = history.count(Outcome.COMMITTED), sum(result.faults.values())
    if committed < plan.transactions_min or faults < plan.faults_min:
        result.shortfall = f"{committed} transactions and {faults} faults are too few"
    if not result.complaints:
        _judge_generation(result, history)


def _judge_generation(result: Result, history: History) -> None:
    """Transactions v2 raise the epoch at each end, the classic ones at each beginning alone."""
    of_java = history.count(Outcome.COMMITTED, JAVA)
    if result.java_epoch < of_java:
        result.complaints.append(
            f"{JAVA} has the epoch {result.java_epoch} after {of_java} commits: it is not of v2"
        )
    elif of_java < max(1, result.plan.transactions_min // 4):
        result.shortfall = f"{JAVA} has committed {of_java} times, which is too little"
