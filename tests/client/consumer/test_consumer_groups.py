"""Members of several kinds in one group: ours beside confluent-kafka's and kafka-python's.

Every member reads on its own thread, as it would in a process of its own. What counts is what
all of them together have read: everything, and after clean hand-overs nothing twice.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from client.consumer.group_members import (
    Confluent,
    Feeder,
    Java,
    KafkaPython,
    Ours,
    Reader,
    Running,
    all_seen,
    shared,
)
from drumlin.client.client import Client
from drumlin.client.consumer.membership.membership import Duty
from drumlin.client.errors import ClientError, CommitFailed, MembershipEnded
from rig.brokers.drumlin_server import DrumlinServer
from rig.servers.apache_kafka import kafka_classpath
from rig.servers.running import skipped_where_unavailable
from rig.waiting import wait_until


@pytest.fixture
def run() -> Iterator[Callable[[Callable[[], Reader]], Running]]:
    started: list[Running] = []

    def start(make: Callable[[], Reader]) -> Running:
        started.append(Running(make))
        return started[-1]

    yield start
    for each in started:
        each.stop()


@pytest.fixture
def group() -> str:
    return f"g-{uuid.uuid4().hex[:8]}"


@pytest.mark.clients
@pytest.mark.parametrize(
    ("is_first", "other", "assignor"),
    [
        pytest.param(True, Confluent, "range", marks=pytest.mark.deep),
        (True, Confluent, "roundrobin"),
        (True, Confluent, "cooperative-sticky"),
        (True, KafkaPython, "range"),
        pytest.param(True, KafkaPython, "sticky", marks=pytest.mark.deep),
        (False, Confluent, "range"),
        pytest.param(False, Confluent, "roundrobin", marks=pytest.mark.deep),
        pytest.param(False, Confluent, "cooperative-sticky", marks=pytest.mark.deep),
        pytest.param(False, KafkaPython, "range", marks=pytest.mark.deep),
        (False, KafkaPython, "sticky"),
    ],
)
def test_a_group_with_another_kind_of_member(
    group_broker: DrumlinServer,
    group_client: Client,
    group_topic: str,
    group: str,
    run: Callable[[Callable[[], Reader]], Running],
    other: Any,
    assignor: str,
    is_first: bool,
) -> None:
    feeder = Feeder(group_client, group_topic)
    makes: list[Callable[[], Reader]] = [
        lambda: Ours(group_client, group_topic, group, assignors=[assignor]),
        lambda: other(group_broker.address, group_topic, group, assignor),
    ]
    first, second = makes if is_first else reversed(makes)
    feeder.feed()
    readers = [run(first)]
    wait_until(lambda: len(readers[0].assignment) == 4, "the first to have all")
    feeder.feed()
    readers.append(run(second))
    wait_until(lambda: shared(readers), "both to have partitions")
    feeder.feed()
    all_seen(readers, feeder)
    readers[0].stop()
    wait_until(lambda: len(readers[1].assignment) == 4, "the second to have all")
    feeder.feed()
    counts = all_seen(readers, feeder)
    if other is not KafkaPython:  # which continues where such a commit fails
        assert set(counts.values()) == {1}, "something was read twice"


@pytest.mark.kafka
def test_a_group_with_the_java_client(
    group_broker: DrumlinServer, group_client: Client, group_topic: str, group: str, run: Any
) -> None:
    with skipped_where_unavailable():
        kafka_classpath()
    feeder = Feeder(group_client, group_topic)
    feeder.feed()
    ours = run(lambda: Ours(group_client, group_topic, group, assignors=["cooperative-sticky"]))
    all_seen([ours], feeder)
    theirs = Java(group_broker.address, group_topic, group)
    try:
        wait_until(lambda: len(ours.assignment) == 2, "the Java client to take its share")
        feeder.feed()
        all_seen([ours, theirs], feeder)
        ours.stop()
        feeder.feed()
        assert set(all_seen([ours, theirs], feeder).values()) == {1}
    finally:
        theirs.stop()
    assert set(ours.seen.values()) == {1}


def test_members_of_both_protocols_in_one_group(
    group_client: Client, group_topic: str, group: str, run: Any
) -> None:
    """From the classic protocol to the new one, and back, with a member at all times."""
    feeder = Feeder(group_client, group_topic)
    feeder.feed()

    def join(**options: Any) -> Running:
        return run(lambda: Ours(group_client, group_topic, group, **options))  # type: ignore[no-any-return]

    readers = [join(assignors=["range"])]
    for options in ({"protocol": "consumer"}, {"protocol": "consumer"}, {"assignors": ["range"]}):
        all_seen(readers, feeder)
        readers.append(join(**options))
        wait_until(lambda: shared(readers[-2:]), "both to have partitions")
        feeder.feed()
        all_seen(readers, feeder)
        readers[-2].stop()
        readers[-2].assignment = set()
        wait_until(lambda: len(readers[-1].assignment) == 4, "the newer one to have all")
        feeder.feed()
    assert set(all_seen(readers, feeder).values()) == {1}


def test_a_cooperative_member_keeps_what_it_keeps(
    group_client: Client, group_topic: str, group: str, run: Any
) -> None:
    options = {"assignors": ["cooperative-sticky"]}
    feeder = Feeder(group_client, group_topic)
    feeder.feed()
    first = run(lambda: Ours(group_client, group_topic, group, **options))
    wait_until(lambda: len(first.assignment) == 4, "the first to have all")
    second = run(lambda: Ours(group_client, group_topic, group, **options))
    wait_until(lambda: shared([first, second]), "both to have partitions")
    assert [len(each) for each in first.reader.revoked] == [2]
    assert [len(each) for each in first.reader.assigned] == [4]
    third = run(lambda: Ours(group_client, group_topic, group, **options))
    wait_until(lambda: shared([first, second, third]), "all to have partitions")
    feeder.feed()
    assert set(all_seen([first, second, third], feeder).values()) == {1}


def test_a_member_that_is_killed_is_replaced(
    group_client: Client, group_topic: str, group: str, run: Any
) -> None:
    """Without a goodbye: the group waits for the session to end, nothing is lost."""
    feeder = Feeder(group_client, group_topic)
    feeder.feed()
    options = {"session_timeout_ms": 2_000}
    silent = Ours(group_client, group_topic, group, **options)
    wait_until(lambda: silent.poll() and len(silent.assignment()) == 4, "something to be read")
    thread, engine = silent.consumer._thread, silent.consumer._engine
    thread.run(engine.stop_polling())  # as if the process were gone
    heir = run(lambda: Ours(group_client, group_topic, group, **options))
    all_seen([heir], feeder)


def test_who_does_not_poll_loses_its_partitions(
    group_client: Client, group_topic: str, group: str, run: Any
) -> None:
    feeder = Feeder(group_client, group_topic)
    feeder.feed()
    idle = Ours(group_client, group_topic, group, max_poll_interval_ms=500)
    wait_until(lambda: idle.poll(), "something to be read")
    heir = run(lambda: Ours(group_client, group_topic, group))
    all_seen([heir], feeder)
    with pytest.raises(CommitFailed, match="not a member"):
        idle.consumer.commit()

    def take_part() -> bool:
        idle.poll()
        return shared([heir], 4 - len(idle.assignment())) or len(idle.assignment()) == 2

    wait_until(take_part, "the idle one to come back")
    assert len(idle.lost) == 1
    assert len(idle.lost[0]) == 4
    idle.close()


def test_a_static_member_comes_back_to_its_partitions(
    group_client: Client, group_topic: str, group: str, run: Any
) -> None:
    other = run(lambda: Ours(group_client, group_topic, group, group_instance_id="b"))
    first = Ours(group_client, group_topic, group, group_instance_id="a")
    wait_until(lambda: first.poll() == [] and len(first.assignment()) == 2, "a share")
    had = first.assignment()
    wait_until(lambda: len(other.assignment) == 2, "the other share")
    generation = first.consumer.group_metadata().generation_id
    rebalances = len(other.reader.assigned)
    first.close()
    again = Ours(group_client, group_topic, group, group_instance_id="a")
    wait_until(lambda: again.poll() == [] and again.assignment(), "its share again")
    assert again.assignment() == had
    assert again.consumer.group_metadata().generation_id == generation
    assert len(other.reader.assigned) == rebalances
    again.consumer.close(leave=True)
    wait_until(lambda: len(other.assignment) == 4, "the other to have all")


def test_two_with_one_instance_id(group_client: Client, group_topic: str, group: str) -> None:
    first = Ours(group_client, group_topic, group, group_instance_id="a")
    wait_until(lambda: first.poll() == [] and len(first.assignment()) == 4, "all partitions")
    second = Ours(group_client, group_topic, group, group_instance_id="a")
    wait_until(lambda: second.poll() == [] and len(second.assignment()) == 4, "all partitions")

    def fenced() -> bool:
        try:
            first.poll()
        except MembershipEnded:
            return True
        return False

    wait_until(fenced, "the first to be fenced")
    assert len(first.lost[0]) == 4
    with pytest.raises(MembershipEnded, match="fenced_instance_id, as another one has joined"):
        first.poll()
    with pytest.raises(CommitFailed):
        first.consumer.commit({(group_topic, 0): 0})
    first.close()
    assert len(second.assignment()) == 4
    second.close()


def test_an_interrupt_while_a_duty_is_handed_over(
    group_client: Client, group_topic: str, group: str
) -> None:
    """What the polling thread was about to be told comes up again with the next poll."""
    feeder = Feeder(group_client, group_topic)
    feeder.feed()
    member = Ours(group_client, group_topic, group)
    thread, engine = member.consumer._thread, member.consumer._engine
    found = thread.run(engine.next(None, comes_back=True))
    assert isinstance(found, Duty)
    for _ in range(2):
        wait_until(member.poll, "something to be read")
        thread.run(engine.next(None, comes_back=False))  # a piece that nothing looks at
    seen: Counter[tuple[int, int]] = Counter()
    member.consumer.seek(group_topic, 0, 0)

    def are_all_seen() -> bool:
        seen.update(member.poll())
        return seen.keys() >= {(0, each) for each in range(50)}

    wait_until(are_all_seen, "all of the partition")
    member.close()
    with pytest.raises(ClientError, match="closed"):
        member.consumer.commit()


def test_partitions_that_are_added_are_read(
    group_client: Client, group_topic: str, group: str, run: Any
) -> None:
    feeder = Feeder(group_client, group_topic)
    options = {"metadata_refresh_ms": 200}
    readers = [run(lambda: Ours(group_client, group_topic, group, **options)) for _ in range(2)]
    wait_until(lambda: shared(readers), "both to have partitions")
    group_client.add_partitions(group_topic, 6)
    wait_until(lambda: shared(readers, 6), "both to have the new ones")
    feeder.feed()
    assert set(all_seen(readers, feeder).values()) == {1}


def test_a_rebalance_waits_for_who_works(
    group_client: Client, group_topic: str, group: str, run: Any
) -> None:
    """Heartbeats are sent while a batch is worked on, and what is done is committed before."""
    feeder = Feeder(group_client, group_topic)
    feeder.feed()
    options = {"session_timeout_ms": 6_000, "commit_interval_ms": None, "max_records": 10}
    worker = Ours(group_client, group_topic, group, **options)
    wait_until(lambda: worker.poll(), "something to work on")
    before = worker.consumer.group_metadata()
    heir = run(lambda: Ours(group_client, group_topic, group))
    wait_until(lambda: len(group_client.describe_group(group).members) == 2, "the other to join")
    time.sleep(0.6)  # a few heartbeats: it must not get anything meanwhile
    assert worker.consumer.group_metadata() == before
    assert not heir.assignment
    wait_until(lambda: worker.poll() is not None and heir.assignment, "the other's share")
    worker.close()


@pytest.mark.parametrize(
    "options", [{"assignors": ["cooperative-sticky"]}, {"protocol": "consumer"}], ids=["old", "new"]
)
def test_nothing_is_lost_when_the_broker_is_killed(
    tmp_path_factory: pytest.TempPathFactory, run: Any, options: dict[str, Any]
) -> None:
    import drumlin

    settings = {
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": "200",
    }
    server = DrumlinServer(tmp_path_factory.mktemp("killed"), settings)
    try:
        server.start()
        with drumlin.connect(server.address) as client:
            client.create_topic("t", 4)
            feeder = Feeder(client, "t")
            feeder.feed()
            options = {"commit_interval_ms": 50, **options}
            readers = [run(lambda: Ours(client, "t", "g", **options)) for _ in range(2)]
            wait_until(lambda: shared(readers), "both to have partitions")
            all_seen(readers, feeder)
            server.kill()
            server.start()
            feeder.feed()
            all_seen(readers, feeder)
            assert shared(readers)
            for each in readers:
                each.stop()
            # They were members all the time: what came after the kills came once.
            assert set(all_seen(readers, feeder).values()) == {1}
    finally:
        server.close()
