"""The Java client's share consumers: its own tools, and members that are told what to do."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest

from drumlin.wire.error_codes import ErrorCode
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.batches import batch
from rig.jvm.jars import java
from rig.jvm.java import SHORT_LIVED_JVM
from rig.servers.apache_kafka import kafka_classpath, run_tool
from rig.servers.running import skipped_where_unavailable
from rig.waiting import wait_until

pytestmark = [pytest.mark.clients, pytest.mark.kafka]

_SOURCE = Path(__file__).parent / "share" / "ShareMember.java"
_JVM = ("-Xmx256m", *SHORT_LIVED_JVM.split())
_SETTINGS = {
    "group.share.min.record.lock.duration.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "share.coordinator.state.topic.num.partitions": "1",
}

#: Deliveries by offset of a topic with one partition.
Given = dict[int, int]


class ShareMember:
    """A Java share consumer that does what it is told."""

    def __init__(self, classes: Path, server: DrumlinServer, group: str, topic: str) -> None:
        command = [java(), *_JVM, "-cp", f"{classes}:{kafka_classpath()}", "ShareMember"]
        self._process = subprocess.Popen(
            [*command, server.address, group, topic],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._listen() == "ready"

    def poll(self, wait_ms: int = 500) -> Given:
        words = self._ask(f"poll {wait_ms}").split()[1:]
        parts = (word.split(":") for word in words)
        return {int(offset): int(count) for _, offset, count in parts}

    def poll_until(self, expected: int) -> Given:
        """Poll until so many records came, without a word about them in between."""
        given: Given = {}

        def is_enough() -> bool:
            given.update(self.poll())
            return len(given) >= expected

        wait_until(is_enough, f"{expected} records", 60)
        return given

    def say(self, kind: str, *offsets: int) -> None:
        for offset in offsets:
            assert self._ask(f"say 0:{offset} {kind}") == "said"

    def commit(self) -> str:
        return self._ask("commit").partition(" ")[2]

    def close(self) -> None:
        self._write("close")
        assert self._process.wait(60) == 0

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(10)
        for stream in (self._process.stdin, self._process.stdout):
            _of(stream).close()

    def _ask(self, line: str) -> str:
        self._write(line)
        return self._listen()

    def _write(self, line: str) -> None:
        _of(self._process.stdin).write(f"{line}\n")
        _of(self._process.stdin).flush()

    def _listen(self) -> str:
        line = _of(self._process.stdout).readline().rstrip("\n")
        assert line, "the member has ended"
        return line


def _of(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with skipped_where_unavailable():
        classpath = kafka_classpath()
        compiler = Path(java()).with_name("javac")
    directory = tmp_path_factory.mktemp("classes")
    command = [str(compiler), "-cp", classpath, "-d", str(directory), str(_SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return directory


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[DrumlinServer]:
    server = DrumlinServer(tmp_path, _SETTINGS)
    server.start()
    try:
        yield server
        server.check_output()
    finally:
        server.close()


Join = Callable[[], ShareMember]


@pytest.fixture
def join(classes: Path, own_server: DrumlinServer) -> Iterator[Join]:
    """Makes members of one group on one topic."""
    members: list[ShareMember] = []

    def join() -> ShareMember:
        members.append(ShareMember(classes, own_server, "group", "topic"))
        return members[-1]

    yield join
    for member in members:
        member.kill()


def begin(server: DrumlinServer, lock_ms: int = 30_000) -> uuid.UUID:
    """A topic, and a group that begins at its start; the topic's id."""
    changes = [
        {"name": name, "config_operation": 0, "value": value}
        for name, value in (
            ("share.auto.offset.reset", "earliest"),
            ("share.record.lock.duration.ms", str(lock_ms)),
        )
    ]
    resource = {"resource_type": 32, "resource_name": "group", "configs": changes}
    topic = {"name": "topic", "num_partitions": 1, "replication_factor": 1}
    with server.connect() as client:
        created = client.ask("create_topics", 7, topics=[topic], timeout=10_000)
        assert created.topics[0].error_code == ErrorCode.none
        changed = client.ask(
            "incremental_alter_configs", 1, resources=[resource], validate_only=False
        )
        assert changed.responses[0].error_code == ErrorCode.none
    topic_id: uuid.UUID = created.topics[0].topic_id
    return topic_id


def kept_count(server: DrumlinServer, topic_id: uuid.UUID, offset: int) -> int:
    """How often a record was delivered, as the share coordinator knows it."""
    topics = [{"topic_id": topic_id, "partitions": [{"partition": 0, "leader_epoch": 0}]}]
    with server.connect() as client:
        answer = client.ask("read_share_group_state", 0, group_id="group", topics=topics)
    for each in answer.results[0].partitions[0].state_batches:
        if each.first_offset <= offset <= each.last_offset:
            return int(each.delivery_count)
    return 0


def produce(server: DrumlinServer, *sizes: int) -> None:
    """Batches of so many records."""
    with server.connect() as client:
        for size in sizes:
            part = {"index": 0, "records": batch(*[b"v"] * size)}
            data = {"name": "topic", "partition_data": [part]}
            answer = client.ask("produce", 9, acks=-1, timeout=10_000, topic_data=[data])
            assert answer.responses[0].partition_responses[0].error_code == ErrorCode.none


@pytest.mark.deep
def test_members_say_what_becomes_of_their_records(own_server: DrumlinServer, join: Join) -> None:
    """Accepted, rejected, released, kept too long, kept longer by renewal, lost with a member."""
    topic_id = begin(own_server, lock_ms=5000)
    one, other = join(), join()
    for offset, member in enumerate((other, one)):  # both are in the group from now on
        produce(own_server, 1)
        assert list(member.poll_until(1)) == [offset]
        member.say("ACCEPT", offset)
        assert member.commit() == "ok"
    produce(own_server, 6)
    # The other member's last fetch may have had some of them: they come when its locks end.
    counts = one.poll_until(6)
    assert sorted(counts) == list(range(2, 8))
    one.say("ACCEPT", 2, 7)
    one.say("REJECT", 3)
    one.say("RELEASE", 4)
    one.say("RENEW", 5, 6)
    assert one.commit() == "ok"
    assert other.poll_until(1) == {4: counts[4] + 1}

    def keep() -> bool:
        """Renew two locks for as long as the other member's lock takes to time out."""
        assert one.poll_until(2) == {5: counts[5], 6: counts[6]}
        one.say("RENEW", 5, 6)
        assert one.commit() == "ok"
        return kept_count(own_server, topic_id, 4) == counts[4] + 1

    wait_until(keep, "the lock that is not renewed to time out", 60)
    assert one.poll_until(2) == {5: counts[5], 6: counts[6]}
    one.say("ACCEPT", 5, 6)
    assert one.commit() == "ok"
    assert one.poll_until(1) == {4: counts[4] + 2}
    other.say("ACCEPT", 4)
    assert other.commit() == "InvalidRecordStateException"
    one.kill()
    assert other.poll_until(1) == {4: counts[4] + 3}
    other.say("ACCEPT", 4)
    assert other.commit() == "ok"
    other.close()


@pytest.mark.deep
def test_members_survive_a_broker_that_is_killed(own_server: DrumlinServer, join: Join) -> None:
    """What was accepted never comes again, and all the rest does."""
    begin(own_server)
    produce(own_server, 10, 10, 10)
    member = join()
    given = member.poll_until(10)
    accepted = set(list(given)[:7])
    member.say("ACCEPT", *accepted)
    member.say("RELEASE", *(set(given) - accepted))
    assert member.commit() == "ok"
    own_server.kill()
    own_server.start()
    rest = set(range(30)) - accepted
    came: set[int] = set()

    def is_all() -> bool:
        got = member.poll(500)
        assert not accepted & set(got), "accepted, and delivered again"
        member.say("ACCEPT", *got)
        if "ok" in member.commit():
            came.update(got)
            accepted.update(got)
        return came >= rest

    wait_until(is_all, "the rest of the records", 90)


@pytest.mark.deep
def test_console_share_consumers_share(own_server: DrumlinServer) -> None:
    """Two of Kafka's own tools divide a topic between them."""
    with skipped_where_unavailable():
        classpath = kafka_classpath()
    begin(own_server)
    command = [
        *(java(), *_JVM, "-cp", classpath),
        "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
        *("--bootstrap-server", own_server.address, "--topic", "topic", "--group", "group"),
        *("--formatter-property", "print.offset=true", "--timeout-ms", "4000"),
    ]
    consumers = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for _ in range(2)
    ]
    try:
        produce(own_server, *[5] * 60)
        lines = [each.communicate(timeout=120)[0].splitlines() for each in consumers]
    finally:
        for each in consumers:
            each.kill()
    said = [line.split()[0] for each in lines for line in each if line]
    offsets = [word for word in said if word.startswith("Offset:")]
    assert sorted(offsets) == sorted(f"Offset:{n}" for n in range(300))
    described = run_tool(
        "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
        *("--bootstrap-server", own_server.address, "--describe", "--group", "group"),
    )
    assert described.split()[-1] == "0", described
