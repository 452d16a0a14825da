"""ShareFetch and ShareAcknowledge as members meet them: waiting, waking, what survives.

What is given and refused request by request is compared with Apache Kafka elsewhere
(`tests/differential/groups/test_share_fetch.py`).
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from drumlin.wire.error_codes import ErrorCode
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.batches import batch
from rig.data.raw import RawClient
from rig.waiting import wait_until

_ACCEPT, _RELEASE, _REJECT, _RENEW = 1, 2, 3, 4
_LONG_MS = 20_000
_TRANSACTIONAL = 0x10
_SETTINGS = {
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.max.share.sessions": "20",
    "share.coordinator.state.topic.num.partitions": "1",
}

Given = list[tuple[int, int, int]]


class Group:
    """A share group on one topic, with its state begun at the start of the log."""

    def __init__(
        self, server: DrumlinServer, topic: str, group: str, start_offset: int = 0, **configs: str
    ) -> None:
        self.server = server
        self.topic, self.name = topic, group
        with server.connect() as client:
            self.topic_id = _create(client, topic)
            if configs:
                _configure(client, group, configs)
            begun = client.ask(
                "initialize_share_group_state",
                0,
                group_id=group,
                topics=[
                    {
                        "topic_id": self.topic_id,
                        "partitions": [
                            {"partition": 0, "state_epoch": 1, "start_offset": start_offset}
                        ],
                    }
                ],
            )
            assert begun.results[0].partitions[0].error_code == ErrorCode.none

    def member(self, name: str) -> Member:
        return Member(self, name)

    def write_state(self, *batches: tuple[int, int, int, int], start_offset: int = -1) -> ErrorCode:
        """Write into the state of the partition from outside: batches as they are kept."""
        names = ("first_offset", "last_offset", "delivery_state", "delivery_count")
        partition = {
            "partition": 0,
            "state_epoch": 1,
            "leader_epoch": -1,
            "start_offset": start_offset,
            "delivery_complete_count": -1,
            "state_batches": [dict(zip(names, batch, strict=True)) for batch in batches],
        }
        topics = [{"topic_id": self.topic_id, "partitions": [partition]}]
        with self.server.connect() as client:
            answer = client.ask("write_share_group_state", 1, group_id=self.name, topics=topics)
        return ErrorCode(answer.results[0].partitions[0].error_code)

    def produce(self, *values: bytes, **fields: Any) -> None:
        with self.server.connect() as client:
            _produce(client, self.topic, batch(*values, **fields))


class Member:
    """A member with a connection of its own."""

    def __init__(self, group: Group, name: str) -> None:
        self.group, self.name = group, name
        self.client: RawClient = group.server.connect()
        self.epoch = 0

    def fetch(self, max_wait: int = 0, max_records: int = 500, **fields: Any) -> Given:
        answer = self.fetch_raw(max_wait, max_records, **fields)
        assert answer.error_code == ErrorCode.none, answer
        return _given(answer)

    def fetch_raw(self, max_wait: int = 0, max_records: int = 500, **fields: Any) -> Any:
        self.send_fetch(max_wait, max_records, **fields)
        return self.receive_fetch()

    def receive_fetch(self) -> Any:
        answer = self.client.receive("share_fetch", 2)
        self.epoch += answer.error_code == ErrorCode.none
        return answer

    def send_fetch(self, max_wait: int = 0, max_records: int = 500, **fields: Any) -> None:
        partition = {"partition_index": 0, "acknowledgement_batches": []}
        asked = {
            "group_id": self.group.name,
            "member_id": self.name,
            "share_session_epoch": self.epoch,
            "max_wait": max_wait,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": max_records,
            "batch_size": 500,
            "topics": [{"topic_id": self.group.topic_id, "partitions": [partition]}],
            "forgotten_topics_data": [],
        }
        self.client.send("share_fetch", 2, **asked | fields)

    def say(self, first: int, last: int, *types: int, leave: bool = False) -> ErrorCode:
        said = {"first_offset": first, "last_offset": last, "acknowledge_types": list(types)}
        partition = {"partition_index": 0, "acknowledgement_batches": [said]}
        answer = self.client.ask(
            "share_acknowledge",
            2,
            group_id=self.group.name,
            member_id=self.name,
            share_session_epoch=-1 if leave else self.epoch,
            is_renew_ack=_RENEW in types,
            topics=[{"topic_id": self.group.topic_id, "partitions": [partition]}],
        )
        assert answer.error_code == ErrorCode.none, answer
        self.epoch += 1
        return ErrorCode(answer.responses[0].partitions[0].error_code)

    def leave(self) -> None:
        self.fetch_raw(share_session_epoch=-1, topics=[])

    def fetch_until(self, expected: int) -> Given:
        """Fetch until this many records came."""
        given: Given = []

        def is_enough() -> bool:
            given.extend(self.fetch(500))
            return _count(given) >= expected

        wait_until(is_enough, f"{expected} records")
        return given


def _given(answer: Any) -> Given:
    return [
        (each.first_offset, each.last_offset, each.delivery_count)
        for topic in answer.responses
        for partition in topic.partitions
        for each in partition.acquired_records
    ]


def _count(given: Sequence[tuple[int, int, int]]) -> int:
    return sum(last - first + 1 for first, last, _ in given)


def _create(client: RawClient, topic: str) -> uuid.UUID:
    asked = {"name": topic, "num_partitions": 1, "replication_factor": 1}
    answer = client.ask("create_topics", 7, topics=[asked], timeout=10_000)
    assert answer.topics[0].error_code == ErrorCode.none
    found: uuid.UUID = answer.topics[0].topic_id
    return found


def _configure(client: RawClient, group: str, configs: dict[str, str]) -> None:
    changes = [
        {"name": key.replace("_", "."), "config_operation": 0, "value": value}
        for key, value in configs.items()
    ]
    resource = {"resource_type": 32, "resource_name": group, "configs": changes}
    answer = client.ask("incremental_alter_configs", 1, resources=[resource], validate_only=False)
    assert answer.responses[0].error_code == ErrorCode.none, answer


def _produce(client: RawClient, topic: str, records: bytes, **fields: Any) -> None:
    data = {"name": topic, "partition_data": [{"index": 0, "records": records}]}
    answer = client.ask("produce", 9, acks=-1, timeout=10_000, topic_data=[data], **fields)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.none, answer


@pytest.fixture(scope="module")
def share_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrumlinServer]:
    server = DrumlinServer(tmp_path_factory.mktemp("share"), _SETTINGS)
    server.start()
    try:
        yield server
        server.check_output()
    finally:
        server.close()


@pytest.fixture
def group(share_server: DrumlinServer, request: pytest.FixtureRequest) -> Group:
    name = re.sub(r"\W+", "-", request.node.name)
    return Group(share_server, f"topic-{name}", f"group-{name}")


@pytest.fixture
def waiting() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def wait_with(pool: ThreadPoolExecutor, member: Member, **fields: Any) -> Future[Given]:
    return pool.submit(member.fetch, _LONG_MS, **fields)


def test_two_members_share_a_partition_and_each_record_goes_to_one(group: Group) -> None:
    one, other = group.member("m1"), group.member("m2")
    for _ in range(6):
        group.produce(*[b"v"] * 5)
    given = [one.fetch(_LONG_MS, 10), other.fetch(_LONG_MS, 10), one.fetch(_LONG_MS, 10)]
    offsets = [at for each in given for first, last, _ in each for at in range(first, last + 1)]
    assert sorted(offsets) == list(range(30))
    assert other.fetch() == []


def test_who_waits_is_woken_by_an_append(group: Group, waiting: ThreadPoolExecutor) -> None:
    member = group.member("m1")
    assert member.fetch() == []
    answer = wait_with(waiting, member)
    group.produce(b"a", b"b")
    assert answer.result(20) == [(0, 1, 1)]


def test_who_waits_is_woken_by_a_release(group: Group, waiting: ThreadPoolExecutor) -> None:
    one, other = group.member("m1"), group.member("m2")
    group.produce(b"a", b"b")
    assert one.fetch(_LONG_MS) == [(0, 1, 1)]
    answer = wait_with(waiting, other)
    assert one.say(0, 1, _RELEASE) == ErrorCode.none
    assert answer.result(20) == [(0, 1, 2)]


@pytest.mark.parametrize("how", ["leaving", "connection"])
def test_who_waits_gets_what_a_member_had_that_is_gone(
    group: Group, waiting: ThreadPoolExecutor, how: str
) -> None:
    one, other = group.member("m1"), group.member("m2")
    group.produce(*[b"v"] * 4)
    assert one.fetch(_LONG_MS) == [(0, 3, 1)]
    answer = wait_with(waiting, other)
    if how == "leaving":
        one.say(0, 1, _ACCEPT, leave=True)
    else:
        assert one.say(0, 1, _ACCEPT) == ErrorCode.none
        one.client.close()
    assert answer.result(20) == [(2, 3, 2)]


def test_a_lock_times_out_and_its_member_is_told(
    share_server: DrumlinServer, waiting: ThreadPoolExecutor
) -> None:
    group = Group(share_server, "locked", "locked", share_record_lock_duration_ms="1000")
    one, other = group.member("m1"), group.member("m2")
    group.produce(b"a", b"b")
    assert one.fetch(_LONG_MS) == [(0, 1, 1)]
    assert wait_with(waiting, other).result(20) == [(0, 1, 2)]
    assert one.say(0, 1, _ACCEPT) == ErrorCode.invalid_record_state
    assert other.say(0, 1, _ACCEPT) == ErrorCode.none


def test_a_renewed_lock_holds(share_server: DrumlinServer, waiting: ThreadPoolExecutor) -> None:
    group = Group(share_server, "renewed", "renewed", share_record_lock_duration_ms="3000")
    one, other = group.member("m1"), group.member("m2")
    group.produce(b"a", b"b")
    assert one.fetch(_LONG_MS) == [(0, 1, 1)]
    answer = wait_with(waiting, other)

    def is_taken() -> bool:
        assert one.say(0, 0, _RENEW) == ErrorCode.none
        return answer.done()

    # The lock on the record that is not renewed ends; the other one is kept all the while.
    wait_until(is_taken, "the other record to be given away")
    assert answer.result() == [(1, 1, 2)]
    assert one.say(0, 0, _ACCEPT) == ErrorCode.none


def test_members_take_turns(group: Group, waiting: ThreadPoolExecutor) -> None:
    """The member that has waited longest gets what comes: none starves."""
    members = [group.member(f"m{n}") for n in range(3)]
    for member in members:
        member.fetch()
    answers = {member.name: wait_with(waiting, member) for member in members}
    got: list[str] = []
    for _ in range(9):
        group.produce(b"v")
        done = wait_until(
            lambda: [name for name, each in answers.items() if each.done()], "an answer", 20
        )
        (name,) = done
        got.append(name)
        member = next(each for each in members if each.name == name)
        ((first, last, _),) = answers[name].result()
        assert member.say(first, last, _ACCEPT) == ErrorCode.none
        answers[name] = wait_with(waiting, member)
    assert all(got.count(f"m{n}") >= 2 for n in range(3)), got
    for _ in members:
        group.produce(b"v")
    for answer in answers.values():
        answer.result(20)


def test_there_is_room_for_so_many_sessions(share_server: DrumlinServer) -> None:
    group = Group(share_server, "limited", "limited")
    members = [group.member(f"m{n}") for n in range(21)]
    codes = [member.fetch_raw().error_code for member in members]
    full = codes.index(ErrorCode.share_session_limit_reached)
    assert set(codes[full:]) == {ErrorCode.share_session_limit_reached}
    for member in members[:full]:
        member.client.close()
    last = members[-1]
    wait_until(lambda: last.fetch_raw().error_code == ErrorCode.none, "room for a session")


def test_a_deleted_topic_is_told(group: Group, waiting: ThreadPoolExecutor) -> None:
    member = group.member("m1")
    member.fetch()
    answer = waiting.submit(member.fetch_raw, _LONG_MS)
    with group.server.connect() as client:
        client.ask("delete_topics", 6, topics=[{"name": group.topic}], timeout=10_000)
    (topic,) = answer.result(20).responses
    assert topic.partitions[0].error_code == ErrorCode.unknown_topic_id


def test_groups_that_read_committed_get_no_aborted_records(share_server: DrumlinServer) -> None:
    """Nor undecided ones; and the start offset does not stop at them."""
    group = Group(share_server, "aborted", "aborted", share_isolation_level="read_committed")
    member = group.member("m1")
    with share_server.connect() as client:
        producer = Transactions(client, group.topic, "aborter")
        producer.send(b"a", b"b")
        assert member.fetch() == []
        producer.end(committed=False)
        producer.send(b"c")
        producer.end(committed=True)
    group.produce(b"d")
    given = member.fetch_until(2)
    offsets = {at for first, last, _ in given for at in range(first, last + 1)}
    assert {3, 5} <= offsets
    assert not offsets & {0, 1}
    for first, last, _ in given:
        assert member.say(first, last, _ACCEPT) == ErrorCode.none
    with share_server.connect() as client:
        partitions = [{"partition": 0, "leader_epoch": 0}]
        topics = [{"topic_id": group.topic_id, "partitions": partitions}]
        state = client.ask("read_share_group_state", 0, group_id=group.name, topics=topics)
    assert state.results[0].partitions[0].start_offset >= 2


class Transactions:
    """A transactional producer for one partition, of the protocol before KIP-890."""

    def __init__(self, client: RawClient, topic: str, transactional_id: str) -> None:
        self.client, self.topic, self.id = client, topic, transactional_id
        self.sequence = 0

        def begin() -> Any:
            client.ask("find_coordinator", 4, key_type=1, coordinator_keys=[transactional_id])
            answer = client.ask(
                "init_producer_id",
                4,
                transactional_id=transactional_id,
                transaction_timeout=60_000,
                producer_id=-1,
                producer_epoch=-1,
            )
            return answer if answer.error_code == ErrorCode.none else None

        begun = wait_until(begin, "a producer id")
        self.producer = {"producer_id": begun.producer_id, "producer_epoch": begun.producer_epoch}

    def send(self, *values: bytes) -> None:
        def is_added() -> bool:
            answer = self.client.ask(
                "add_partitions_to_txn",
                3,
                v3_and_below_transactional_id=self.id,
                v3_and_below_producer_id=self.producer["producer_id"],
                v3_and_below_producer_epoch=self.producer["producer_epoch"],
                v3_and_below_topics=[{"name": self.topic, "partitions": [0]}],
            )
            (topic,) = answer.results_by_topic_v3_and_below
            (result,) = topic.results_by_partition
            return bool(result.partition_error_code == ErrorCode.none)

        wait_until(is_added, "the partition to be in the transaction")
        records = batch(
            *values, **self.producer, base_sequence=self.sequence, extra_attributes=_TRANSACTIONAL
        )
        self.sequence += len(values)
        _produce(self.client, self.topic, records, transactional_id=self.id)

    def end(self, *, committed: bool) -> None:
        answer = self.client.ask(
            "end_txn", 3, transactional_id=self.id, **self.producer, committed=committed
        )
        assert answer.error_code == ErrorCode.none


def test_what_was_accepted_never_comes_again_and_nothing_is_lost(tmp_path: Path) -> None:
    """A broker that is killed knows what was answered; what was only locked comes again."""
    server = DrumlinServer(tmp_path, _SETTINGS)
    server.start()
    try:
        group = Group(server, "survives", "survives")
        one = group.member("m1")
        for _ in range(4):
            group.produce(*[b"v"] * 10)
        assert _count(one.fetch_until(40)) == 40
        assert one.say(0, 4, _ACCEPT) == ErrorCode.none
        assert one.say(20, 29, _ACCEPT) == ErrorCode.none
        assert one.say(30, 31, _REJECT) == ErrorCode.none
        assert one.say(32, 33, _RELEASE) == ErrorCode.none
        server.kill()
        server.start()
        other = group.member("m2")
        given = other.fetch_until(23)
        counts = {at: n for first, last, n in given for at in range(first, last + 1)}
        assert sorted(counts) == [*range(5, 20), *range(32, 40)]
        assert (counts[5], counts[32], counts[34]) == (1, 2, 1)
        _stop_while_waiting(server, other)
        server.check_output()
    finally:
        server.close()


def _stop_while_waiting(server: DrumlinServer, member: Member) -> None:
    """A fetch that waits when the broker stops is answered: with nothing, or with no room."""
    others = [member.group.member(f"late-{n}") for n in range(21)]
    refused = others.pop()
    member.send_fetch(_LONG_MS)
    codes = {each.fetch_raw().error_code for each in others}
    assert codes == {ErrorCode.none, ErrorCode.share_session_limit_reached}
    refused.send_fetch(_LONG_MS)
    member.group.member("refused-too").fetch_raw()  # what was sent before it has been read by now
    server.stop()
    assert _given(member.receive_fetch()) == []
    assert refused.receive_fetch().error_code == ErrorCode.share_session_limit_reached


# -- states that another broker wrote -----------------------------------------------------------

_END = 2**63 - 1


@pytest.mark.parametrize(
    ("batches", "start_offset"),
    [
        ([(0, _END, 0, 1)], -1),
        ([(3, _END, 2, 1)], -1),
        ([(_END, _END, 4, 1)], -1),
        ([(0, 2, 0, 32767)], -1),
        ([(0, 2, 0, -7)], -1),
        ([(0, 2, 1, 1), (1, 1, 7, 2)], -1),
        ([(2, 0, 2, 1), (-9, -5, 2, 1)], -1),
        ([(1, 2, 0, 1), (0, 1, 0, 3), (0, 2, 0, 2)], -1),
        ([], -2),
        ([], -(2**63)),
    ],
)
def test_whatever_is_written_as_state_the_records_are_delivered(
    group: Group, batches: list[tuple[int, int, int, int]], start_offset: int
) -> None:
    assert group.write_state(*batches, start_offset=start_offset) == ErrorCode.none
    group.produce(b"a", b"b", b"c")
    member, seen = group.member("m"), set()

    def is_all_accepted() -> bool:
        for first, last, _ in member.fetch(500):
            assert member.say(first, last, _ACCEPT) == ErrorCode.none
            seen.update(range(first, last + 1))
        return len(seen) == 3

    wait_until(is_all_accepted, "all records")
    group.produce(b"d")
    assert [each[:2] for each in member.fetch_until(1)] == [(3, 3)]
    assert member.say(3, 3, _ACCEPT, leave=True) == ErrorCode.none
