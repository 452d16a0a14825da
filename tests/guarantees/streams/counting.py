"""Runs the application, kills it, and compares what it has counted with a plain count."""

from __future__ import annotations

import functools
import random
import shutil
import subprocess
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from guarantees.brokers import Broker, address, create_topics
from guarantees.clients import is_passing, make_consumer
from guarantees.programs import Program
from rig.jvm.jars import Unavailable, jar_folder, java

_PARTITIONS = 3
_SOURCE = Path(__file__).with_name("CountWords.java")


@dataclass(frozen=True)
class Count:
    """How many words are counted, and how often something is killed.

    By turns the application and the broker, which is killed while the application runs.
    """

    records: int
    kills: int
    seed: str = "0"
    timeout_s: float = 120.0


@dataclass
class Counted:
    """What came of it."""

    complaints: list[str] = field(default_factory=list)
    kills: int = 0
    broker_kills: int = 0
    restarts: int = 0
    seconds: float = 0.0


def streams_classpath() -> str:
    """Class path of Kafka Streams; fetched with Maven the first time."""
    java()
    if not shutil.which("javac"):
        raise Unavailable("a Java compiler is not installed")
    return f"{jar_folder('streams-jars')}/*"


@functools.cache
def _classes() -> str:
    """A directory with the application, compiled once for all tests."""
    directory = tempfile.mkdtemp(prefix="count-words-")
    command = ["javac", "-cp", streams_classpath(), "-d", directory, str(_SOURCE)]
    subprocess.run(command, check=True, timeout=120)
    return directory


def count_words(plan: Count, broker: Broker, directory: Path) -> Counted:
    """Do it; the broker runs already."""
    create_topics(broker, {"words": _PARTITIONS, "counts": _PARTITIONS})
    expected = _fill(address(broker), plan)
    application = make_application(address(broker), directory, replicas=1, standbys=0)
    counted = Counted()
    began = time.monotonic()
    consumer = make_consumer(address(broker), "counts-reader")
    consumer.assign([TopicPartition("counts", each, 0) for each in range(_PARTITIONS)])
    try:
        application.start()
        found = _await_counts(plan, broker, consumer, application, counted)
    finally:
        application.kill()
        consumer.close()
    counted.restarts = application.restarts
    counted.seconds = time.monotonic() - began
    counted.complaints += compare(expected, found)
    return counted


def make_application(bootstrap: str, directory: Path, *, replicas: int, standbys: int) -> Program:
    """An instance of the application with a state of its own, not started yet."""
    directory.mkdir(exist_ok=True)
    command = [
        *(java(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"),
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        *("-cp", f"{_classes()}:{streams_classpath()}", "CountWords"),
        *(bootstrap, str(directory / "state"), "words", "counts", str(replicas), str(standbys)),
    ]
    return Program(command, directory / "application.out")


def _fill(bootstrap: str, plan: Count) -> Counter[str]:
    """Words, some of them frequent; how often each comes."""
    chance = random.Random(plan.seed)
    words = [f"word-{int(chance.paretovariate(0.5)) % 97}" for _ in range(plan.records)]
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number, word in enumerate(words):
        producer.produce("words", word, str(number), partition=number % _PARTITIONS)
        producer.poll(0)
    assert producer.flush(60) == 0
    return Counter(words)


def _await_counts(
    plan: Count, broker: Broker, consumer: Consumer, application: Program, counted: Counted
) -> dict[str, list[int]]:
    """All committed counts, by word; kills in between, whenever so many more have come."""
    found: dict[str, list[int]] = defaultdict(list)
    total = 0
    deadline = time.monotonic() + plan.timeout_s
    while total < plan.records:
        if time.monotonic() > deadline:
            counted.complaints.append(f"{total} of {plan.records} after {plan.timeout_s} s")
            break
        total += read_counts(consumer, found)
        application.look_after()
        if counted.kills < plan.kills and total > plan.records * counted.kills / (plan.kills + 1):
            counted.kills += 1
            if counted.kills % 2 == 0:
                counted.broker_kills += 1
                broker.kill()
                broker.start()
            else:
                application.kill()
                application.start()
    while read_counts(consumer, found):  # what comes after the end came twice
        pass
    return found


def read_counts(consumer: Consumer, found: dict[str, list[int]]) -> int:
    """Add what comes next; how many counts that were."""
    count = 0
    for message in consumer.consume(1000, 0.5):
        error = message.error()
        if error is None:
            found[(message.key() or b"").decode()].append(int(message.value() or b"0"))
            count += 1
        elif not is_passing(error):
            raise KafkaException(error)
    return count


def compare(expected: Counter[str], found: dict[str, list[int]]) -> list[str]:
    """Each word's counts are 1, 2, 3, ... up to what a plain count says."""
    return [
        f"{word}: {expected[word]} times, counted as {found.get(word, [])[-20:]}"
        for word in expected.keys() | found.keys()
        if found.get(word, []) != list(range(1, expected[word] + 1))
    ]
