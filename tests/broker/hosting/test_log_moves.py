"""Replicas that move between the log dirs of a broker: codes are those of Apache Kafka 4.3."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from broker.conftest import Ask
from broker.in_process import running
from drumlin.broker.start.broker import Broker
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.replacement.log_move import LogMove
from rig.data.messages import render
from rig.data.raw import RawClient
from rig.servers.apache_kafka import run_tool
from rig.waiting import eventually, wait_until

Dirs = tuple[Path, Path]
Script = Callable[[Ask, int], None]


@pytest.fixture
def dirs(tmp_path: Path) -> Dirs:
    return tmp_path / "one", tmp_path / "two"


def with_broker(dirs: Dirs, script: Script, **settings: str) -> None:
    """Run a script beside a broker with two log dirs."""

    def run(port: int) -> None:
        with RawClient(port) as client:
            script(lambda api, version, **fields: render(client.ask(api, version, **fields)), port)

    async def main() -> None:
        async with running(*dirs, **settings) as broker:
            await asyncio.to_thread(run, broker.listeners[0].port)

    asyncio.run(main())


def create(ask: Ask, name: str, count: int = 1) -> None:
    topic = {"name": name, "num_partitions": count, "replication_factor": 1, "configs": []}
    (answer,) = ask("create_topics", 7, topics=[topic], timeout=9000)["topics"]
    assert answer["error_code"] == "none"


def move(ask: Ask, path: Path, name: str, *indexes: int) -> list[tuple[int, str]]:
    wanted = [{"path": str(path), "topics": [{"name": name, "partitions": list(indexes)}]}]
    (topic,) = ask("alter_replica_log_dirs", 2, dirs=wanted)["results"]
    return [(each["partition_index"], each["error_code"]) for each in topic["partitions"]]


Found = dict[tuple[str, int], list[tuple[str, bool, int]]]


def places(ask: Ask) -> Found:
    """The log dirs of each partition, whether it is a future one there, and its lag."""
    found: Found = {}
    for told in ask("describe_log_dirs", 4, topics=None)["results"]:
        for topic in told["topics"]:
            for each in topic["partitions"]:
                place = Path(told["log_dir"]).name, each["is_future_key"], each["offset_lag"]
                found.setdefault((topic["name"], each["partition_index"]), []).append(place)
    return found


def other_than(ask: Ask, dirs: Dirs, name: str, index: int = 0) -> Path:
    ((here, _, _),) = places(ask)[name, index]
    return next(each for each in dirs if each.name != here)


def produce(port: int, topic: str, count: int, size: int = 1000) -> None:
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})
    for number in range(count):
        producer.produce(topic, f"{number}-".encode().ljust(size), partition=0)
        producer.poll(0)
    assert producer.flush(30) == 0


def read(port: int, topic: str, count: int) -> list[int]:
    settings = {"bootstrap.servers": f"127.0.0.1:{port}", "group.id": "g", "log_level": 0}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[int] = []
    while len(found) < count:
        (message,) = consumer.consume(1, 10) or [None]
        assert message is not None, found
        assert message.error() is None
        found.append(int(message.value().split(b"-")[0]))
    consumer.close()
    return found


@pytest.mark.parametrize("is_idempotent", [False, pytest.param(True, marks=pytest.mark.deep)])
def test_a_log_moves_while_it_is_written_and_read(dirs: Dirs, is_idempotent: bool) -> None:
    """Not even a producer without sequences, with many requests on their way, notices it."""

    def script(ask: Ask, port: int) -> None:
        create(ask, "t")
        produce(port, "t", 5000)
        settings = {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "enable.idempotence": is_idempotent,
            "log_level": 0,
        }
        producer, failures, is_over = Producer(settings), list[Any](), threading.Event()
        written = 5000

        def write() -> None:
            nonlocal written
            while not is_over.is_set():
                producer.produce(
                    "t",
                    b"%d-" % written,
                    partition=0,
                    on_delivery=lambda error, _: failures.append(error) if error else None,
                )
                written += 1
                producer.poll(0.001)
            assert producer.flush(30) == 0

        thread = threading.Thread(target=write)
        thread.start()
        try:
            for _ in range(6):
                target = other_than(ask, dirs, "t")
                assert move(ask, target, "t", 0) == [(0, "none")]
                wanted = [(target.name, False, 0)]
                wait_until(lambda at=wanted: places(ask)["t", 0] == at, "the log to be there", 30)
                assert (target / "t-0").is_dir()
        finally:
            is_over.set()
            thread.join()
        assert failures == []
        assert read(port, "t", written) == list(range(written))

    with_broker(dirs, script, log_segment_bytes="1048576")


def test_it_can_be_seen_slowed_down_and_given_up(dirs: Dirs) -> None:
    def throttle(ask: Ask, rate: int) -> None:
        change = {
            "name": "replica.alter.log.dirs.io.max.bytes.per.second",
            "value": str(rate),
            "config_operation": 0,
        }
        resource = {"resource_type": 4, "resource_name": "", "configs": [change]}
        (answer,) = ask("incremental_alter_configs", 1, resources=[resource], validate_only=False)[
            "responses"
        ]
        assert answer["error_code"] == "none"

    def script(ask: Ask, port: int) -> None:
        create(ask, "t")
        produce(port, "t", 20_000)
        throttle(ask, 1000)
        target = other_than(ask, dirs, "t")
        (here,) = {each.name for each in dirs} - {target.name}

        def is_under_way() -> bool:
            now, *future = places(ask)["t", 0]
            assert now == (here, False, 0)
            return bool(future) and 0 < future[0][2] <= 20_000 and any(target.glob("t-0.*-future"))

        for _ in range(2):
            assert move(ask, target, "t", 0) == [(0, "none")]
        wait_until(is_under_way, "the copy to begin")
        assert move(ask, dirs[0] if here == "one" else dirs[1], "t", 0) == [(0, "none")]
        wait_until(lambda: not list(target.glob("t-0*")), "the copy to be gone")
        assert places(ask)["t", 0] == [(here, False, 0)]
        assert move(ask, target, "t", 0) == [(0, "none")]
        wait_until(is_under_way, "the copy to begin again")
        throttle(ask, 1 << 40)
        wait_until(lambda: places(ask)["t", 0] == [(target.name, False, 0)], "the end", 30)
        assert len(read(port, "t", 20_000)) == 20_000

    with_broker(dirs, script)


def test_what_cannot_be_moved(dirs: Dirs) -> None:
    def script(ask: Ask, _: int) -> None:
        create(ask, "t", 2)
        assert move(ask, dirs[0] / "elsewhere", "t", 0) == [(0, "log_dir_not_found")]
        unavailable = "replica_not_available"
        assert move(ask, dirs[0], "t", 2, 0, -1) == [
            (2, unavailable),
            (0, "none"),
            (-1, unavailable),
        ]
        assert move(ask, dirs[0], "nowhere", 0) == [(0, unavailable)]

    with_broker(dirs, script)


def test_a_stop_leaves_the_log_where_it_is(dirs: Dirs) -> None:
    def script(ask: Ask, port: int) -> None:
        create(ask, "t")
        produce(port, "t", 20_000)
        assert move(ask, other_than(ask, dirs, "t"), "t", 0) == [(0, "none")]

    slow = {"replica_alter_log_dirs_io_max_bytes_per_second": "1000"}
    with_broker(dirs, script, **slow)
    assert not [each for path in dirs for each in path.glob("*-future")]
    with_broker(dirs, lambda _, port: read(port, "t", 20_000) and None)


def test_a_partition_is_deleted_on_its_way(dirs: Dirs) -> None:
    async def run() -> None:
        slow = {"replica_alter_log_dirs_io_max_bytes_per_second": "1000"}
        async with running(*dirs, **slow) as broker:
            topic = await broker.metadata.create_topic("t", [[1]], {})
            await asyncio.to_thread(produce, broker.listeners[0].port, "t", 20_000)
            begin(broker)
            await broker.metadata.delete_topic(topic.topic_id)
            async with asyncio.timeout(30):
                while list(broker.log_moves):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            assert not [each for path in dirs for each in path.glob("*-future")]

    def begin(broker: Broker) -> None:
        log = broker.logs.get("t", 0)
        assert log is not None
        target = next(each for each in broker.logs.directories if each is not log.log_directory)
        broker.log_moves.begin(log, target)

    asyncio.run(run())


def test_a_log_that_is_cut_in_the_last_moment_moves_afterwards(
    dirs: Dirs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After it was last looked at, and before it takes no batches any more."""
    was_cut: list[bool] = []
    flush, complete = PartitionLog.flush, LogMove.complete

    def completing(move: LogMove) -> None:
        was_cut.append(move.log.is_being_cut)
        complete(move)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        async with running(*dirs) as broker:
            await broker.metadata.create_topic("t", [[1]], {})
            log = broker.logs.get("t", 0)
            assert log is not None

            def end_cut() -> None:
                log.is_being_cut = False

            def cutting(flushed: PartitionLog, *arguments: Any) -> None:
                flush(flushed, *arguments)
                monkeypatch.setattr(PartitionLog, "flush", flush)
                flushed.is_being_cut = True
                loop.call_soon_threadsafe(loop.call_later, 0.05, end_cut)

            monkeypatch.setattr(PartitionLog, "flush", cutting)
            monkeypatch.setattr(LogMove, "complete", completing)
            target = next(each for each in broker.logs.directories if each is not log.log_directory)
            broker.log_moves.begin(log, target)
            await eventually(lambda: log.log_directory is target)

    asyncio.run(run())
    assert was_cut == [False]


@pytest.mark.clients
@pytest.mark.kafka
@pytest.mark.usefixtures("kafka_classes")
def test_kafkas_own_command(dirs: Dirs, tmp_path: Path) -> None:
    def script(ask: Ask, port: int) -> None:
        create(ask, "t")
        produce(port, "t", 1000)
        target, plan = other_than(ask, dirs, "t"), tmp_path / "plan.json"
        wanted = f'"topic":"t","partition":0,"replicas":[1],"log_dirs":["{target}"]'
        plan.write_text(f'{{"version":1,"partitions":[{{{wanted}}}]}}')

        def tool(*arguments: str) -> str:
            return run_tool(
                "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
                "--bootstrap-server",
                f"127.0.0.1:{port}",
                "--reassignment-json-file",
                str(plan),
                *arguments,
            )

        said = tool("--execute", "--replica-alter-log-dirs-throttle", "100000000")
        assert f"Successfully started moving log directory to {target} for replica t-0" in said
        wait_until(lambda: places(ask)["t", 0] == [(target.name, False, 0)], "the end", 30)
        assert "Reassignment of replica t-0-1 completed successfully." in tool("--verify")

    with_broker(dirs, script)
