"""What a writing task holds in memory does not grow with what it writes."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rig.waiting import wait_until
from spark.topics import Topic

pytestmark = pytest.mark.spark

_LIMIT_MIB = 256


def children() -> dict[int, list[int]]:
    """The processes of this machine by their parents."""
    found: dict[int, list[int]] = {}
    for each in Path("/proc").iterdir():
        if each.name.isdecimal():
            try:
                parent = int((each / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            found.setdefault(parent, []).append(int(each.name))
    return found


def workers() -> dict[int, str]:
    """The status of each Python worker of this session."""
    tree, found, statuses = children(), [os.getpid()], {}
    while found:
        process = found.pop()
        found += tree.get(process, [])
        try:
            command = Path(f"/proc/{process}/cmdline").read_bytes()
            status = Path(f"/proc/{process}/status").read_text()
        except OSError:
            continue
        if b"pyspark" in command and b"java" not in command and "VmHWM" in status:
            statuses[process] = status
    return statuses


def end_idle_workers() -> None:
    """Spark starts new ones: what workers still hold of other tests is not this write's."""
    found = set(workers())
    tree = children()
    idle = {each for daemon in found for each in tree.get(daemon, [])} & found
    for process in idle:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    wait_until(lambda: not idle & set(workers()), "the end of idle workers")


def largest_worker_mib() -> int:
    """The most that any of them has had in memory since."""
    peaks = [int(each.partition("VmHWM:")[2].split()[0]) // 1024 for each in workers().values()]
    return max(peaks, default=0)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("partitions", "size", "mib"),
    [
        pytest.param(32, 100, 200, marks=pytest.mark.deep),
        (32, 1_000, 200),
        pytest.param(3_000, 1_000, 60, marks=pytest.mark.deep),
    ],
)
def test_a_task_writes_more_than_it_may_hold(
    spark: SparkSession,
    new_topic: Callable[[int], Topic],
    partitions: int,
    size: int,
    mib: int,
) -> None:
    topic = new_topic(partitions)
    rows = (mib << 20) // size
    frame = spark.range(0, rows, 1, 1).selectExpr(
        "cast(id as string) AS key", f"cast(repeat('x', {size}) as binary) AS value"
    )
    end_idle_workers()
    seen, ended = [0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.2):
            seen.append(largest_worker_mib())

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        options = {"kafka.bootstrap.servers": topic.address, "topic": topic.name}
        frame.write.format("drumlin").options(**options).mode("append").save()
    finally:
        ended.set()
        watching.join()
    assert 0 < max(seen) <= _LIMIT_MIB
