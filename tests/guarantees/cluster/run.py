"""One run: three brokers, their clients and their faults for some seconds, and what was wrong."""

from __future__ import annotations

import shutil
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException, TopicPartition

from guarantees.clients import make_consumer
from guarantees.cluster.clients import KINDS, PARTITIONS, TOPICS, Clients, create_topics
from guarantees.cluster.faults import Faults
from guarantees.cluster.members import Cluster, elections, tracebacks
from guarantees.cluster.plans import FAULTS, Step
from guarantees.cluster.plans import plan as plan_of
from guarantees.cluster.replicas import Replica, differences
from guarantees.histories.checker import check, summary
from guarantees.histories.history import Recorder, load
from rig.fault_injection.network import Network
from rig.waiting import wait_until

_COMPACTED: Final = {
    "b",
    "keys",
    "__consumer_offsets",
    "__transaction_state",
    "__share_group_state",
}
_HEAL_S: Final = 60.0
_DISK_MIB: Final = 1024


@dataclass(frozen=True)
class Plan:
    """What a run does, and the least that it must have done to count."""

    seed: str
    seconds: float
    gap_s: tuple[float, float] = (0.5, 4.0)
    #: What happens first, whatever the seed says.
    first: tuple[Step, ...] = ()
    faults: tuple[str, ...] = tuple(FAULTS)
    clients: tuple[str, ...] = KINDS
    #: Whether there is a writer with transactions of the second generation (KIP-890).
    has_java: bool = False
    faults_min: int = 1
    elections_min: int = 1


@dataclass
class Result:
    """What came of a run: it counts and proves, if nothing is complained of, and it is not void."""

    faults: dict[str, int] = field(default_factory=dict)
    #: Each fault, and when it was done.
    done: list[str] = field(default_factory=list)
    #: Faults that hit a broker that led something of the data.
    leaders_hit: int = 0
    elections: int = 0
    controllers: int = 0
    healed_s: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    #: Why it does not count, if it does not: too little has happened.
    void: str = ""
    directory: str = ""
    seconds: float = 0.0


def run(plan: Plan, directory: Path) -> Result:
    """Do it. The directory is removed if all is right, else it keeps history and data."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    recorder = Recorder(directory / "history.jsonl")
    result = Result()
    with Network() as network:
        cluster = Cluster(directory, network)
        try:
            if "fill_disk" in plan.faults:
                cluster.mount(_DISK_MIB)
            cluster.start()
            create_topics(cluster.bootstrap)
            _await_topics(cluster)
            _torture(plan, cluster, recorder, result, directory)
            _compare(cluster, result)
        except Exception as failure:
            result.complaints.append("".join(traceback.format_exception(failure)))
        finally:
            if result.complaints:
                cluster.keep_data()
            cluster.close()
            recorder.close()
    result.complaints += tracebacks(cluster.members.values())
    _judge(plan, result)
    if not result.complaints:
        shutil.rmtree(directory)
    else:
        result.directory = str(directory)
        text = "\n".join([*result.complaints, "", "what was done:", *result.done])
        (directory / "complaints.txt").write_text(text)
    return result


def _await_topics(cluster: Cluster) -> None:
    wanted = {(topic, number) for topic, count in TOPICS.items() for number in range(count)}
    wait_until(lambda: wanted <= cluster.states().keys(), "the topics")


def _torture(
    plan: Plan, cluster: Cluster, recorder: Recorder, result: Result, directory: Path
) -> None:
    before, controller_epoch = cluster.states(), cluster.controller_epoch()
    faults = Faults(cluster, plan_of(plan.seed, plan.gap_s, plan.first, plan.faults), PARTITIONS)
    kinds = (*plan.clients, "java") if plan.has_java else plan.clients
    clients = Clients(plan.seed, cluster.bootstrap, recorder, faults.commit_asked, directory, kinds)
    clients.start()
    faults.start()
    try:
        threading.Event().wait(plan.seconds)
    finally:
        faults.stop()
        result.faults, result.done = dict(faults.counts), faults.done
        result.leaders_hit = faults.leaders_hit
    if faults.failure is not None:
        raise faults.failure
    result.complaints += faults.complaints
    try:
        result.healed_s = cluster.await_whole(_HEAL_S)
    except AssertionError as failure:
        result.complaints.append(str(failure))
    result.complaints += clients.end()
    history = load(recorder.path)
    result.complaints += clients.end_sharing(history)
    anomalies = check(history)
    if anomalies:
        result.complaints.append(summary(anomalies))
    result.complaints += clients.check(history)
    result.counts = clients.counts(history)
    result.elections = elections(before, cluster.states())
    result.controllers = cluster.controller_epoch() - controller_epoch


def _compare(cluster: Cluster, result: Result) -> None:
    """All replicas have the same below the high watermark, once everybody is in sync."""
    cluster.await_whole(_HEAL_S)
    high_watermarks = dict(_high_watermarks(cluster))
    states = cluster.states()
    for member in cluster.members.values():
        member.kill()
    for (topic, partition), high_watermark in high_watermarks.items():
        name = f"{topic}-{partition}"
        replicas = [
            Replica.read(each, cluster.members[each].data / name, high_watermark)
            for each in states[topic, partition].replicas
        ]
        for each in differences(replicas, is_compacted=topic in _COMPACTED):
            result.complaints.append(f"replicas of {name} differ below {high_watermark}: {each}")


def _high_watermarks(cluster: Cluster) -> Iterator[tuple[tuple[str, int], int]]:
    consumer = make_consumer(cluster.bootstrap, "ends", isolation_level="read_uncommitted")
    try:
        for topic, partition in cluster.states():
            deadline = time.monotonic() + _HEAL_S
            while True:
                try:
                    _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), 10)
                    break
                except KafkaException:
                    if time.monotonic() > deadline:
                        raise
            yield (topic, partition), end
    finally:
        consumer.close()


def _judge(plan: Plan, result: Result) -> None:
    faults = sum(result.faults.values())
    if faults < plan.faults_min or result.elections < plan.elections_min:
        result.void = f"{faults} faults and {result.elections} elections are too few"
    idle = [name for name, count in result.counts.items() if not count]
    if idle and set(plan.clients) >= set(KINDS):
        result.void = f"there are no {', '.join(idle)}"
