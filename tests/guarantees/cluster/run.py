"""One run: three brokers, their clients and their faults for some seconds, and what was wrong."""

from __future__ import annotations

import shutil
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from guarantees.checker import check, summary
from guarantees.clients import make_consumer
from guarantees.cluster.faults import Faults
from guarantees.cluster.faults import plan as plan_of
from guarantees.cluster.members import Cluster, elections, tracebacks
from guarantees.cluster.plain_writer import PlainWriter
from guarantees.cluster.replicas import Replica, differences
from guarantees.history import History, Recorder, load
from guarantees.torture.readers import AssignedReader, read_to_the_end
from rig.network import Network
from rig.waiting import wait_until

_TOPICS = {"a": 3, "b": 2}
_CONFIGS = {"a": {"segment.bytes": "1048576"}, "b": {"cleanup.policy": "compact"}}
_COMPACTED = {"b", "__consumer_offsets", "__transaction_state", "__share_group_state"}
_PARTITIONS = [(topic, number) for topic, count in _TOPICS.items() for number in range(count)]
_SETTLE_S = 60.0
_HEAL_S = 60.0


class Client(Protocol):
    """A thread that works until it is stopped."""

    name: str
    failure: BaseException | None

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def join(self, timeout: float) -> None: ...
    def is_alive(self) -> bool: ...
    @property
    def ident(self) -> int | None: ...


@dataclass(frozen=True)
class Plan:
    """What a run does, and the least that it must have done to count."""

    seed: str
    seconds: float
    gap_s: tuple[float, float] = (0.5, 4.0)
    faults_min: int = 1
    elections_min: int = 1


@dataclass
class Result:
    """What came of a run; without complaints and shortfall it counts and proves."""

    plan: Plan
    history: History = field(default_factory=History)
    faults: dict[str, int] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    elections: int = 0
    healed_s: float = 0.0
    complaints: list[str] = field(default_factory=list)
    shortfall: str = ""
    directory: Path | None = None


def run(plan: Plan, directory: Path) -> Result:
    """Do it. The directory is removed if all is right, else it keeps history and data."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    recorder = Recorder(directory / "history.jsonl")
    result = Result(plan)
    with Network() as network:
        cluster = Cluster(directory, network)
        try:
            cluster.start()
            _create_topics(cluster)
            _torture(plan, cluster, recorder, result)
            _compare(cluster, result)
        except Exception as failure:
            result.complaints.append("".join(traceback.format_exception(failure)))
        finally:
            cluster.close()
            recorder.close()
    result.complaints += tracebacks(cluster.members.values())
    _judge(result, recorder)
    if not result.complaints:
        shutil.rmtree(directory)
    else:
        result.directory = directory
        text = "\n".join([*result.complaints, "", "what was done:", *result.done])
        (directory / "complaints.txt").write_text(text)
    return result


def _create_topics(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    new = [NewTopic(name, count, 3, config=_CONFIGS[name]) for name, count in _TOPICS.items()]
    for created in admin.create_topics(new).values():
        created.result(20)
    wait_until(lambda: set(_PARTITIONS) <= cluster.states().keys(), "the topics")


def _torture(plan: Plan, cluster: Cluster, recorder: Recorder, result: Result) -> None:
    bootstrap, seed = cluster.bootstrap, plan.seed
    common = (bootstrap, _PARTITIONS, recorder, seed)
    writers: list[Client] = [PlainWriter(f"plain-{number}", *common) for number in range(2)]
    readers: list[Client] = [
        AssignedReader("assigned", *common),
        AssignedReader("uncommitted", *common, isolation="read_uncommitted"),
    ]
    faults = Faults(cluster, plan_of(seed, plan.gap_s), _PARTITIONS)
    before = cluster.states()
    for each in (*readers, *writers):
        each.start()
    faults.start()
    try:
        threading.Event().wait(plan.seconds)
    finally:
        faults.stop()
        result.faults, result.done = dict(faults.counts), faults.done
    if faults.failure is not None:
        raise faults.failure
    result.healed_s = cluster.await_whole(_HEAL_S)
    result.complaints += _join(writers)
    complaint = read_to_the_end("last", bootstrap, _PARTITIONS, recorder, _SETTLE_S)
    result.complaints += [complaint] if complaint else []
    result.complaints += _join(readers)
    result.elections = elections(before, cluster.states())


def _join(clients: Sequence[Client]) -> list[str]:
    """Stop them; what they complain of."""
    for each in clients:
        each.stop()
    deadline = time.monotonic() + _SETTLE_S
    complaints = []
    for each in clients:
        each.join(max(0.0, deadline - time.monotonic()))
        if each.is_alive():
            frame = sys._current_frames()[each.ident or 0]
            where = "".join(traceback.format_stack(frame))
            complaints.append(f"{each.name} does not get through:\n{where}")
        elif each.failure is not None:
            complaints.append(f"{each.name}: {type(each.failure).__name__}: {each.failure}")
    return complaints


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
            deadline = time.monotonic() + _SETTLE_S
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


def _judge(result: Result, recorder: Recorder) -> None:
    history = result.history = load(recorder.path)
    anomalies = check(history)
    if anomalies:
        result.complaints.append(summary(anomalies))
    faults = sum(result.faults.values())
    if faults < result.plan.faults_min or result.elections < result.plan.elections_min:
        result.shortfall = f"{faults} faults and {result.elections} elections are too few"
