"""Clients of all kinds, and what each can say, when all is over, of what it was acknowledged."""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from crash.requests import create_topic, fetch, produce
from drumlin.wire.error_codes import ErrorCode
from guarantees.faults.reading import read_all
from guarantees.faults.worker import ANSWER_S, Refused, Worker, check
from rig.data.batches import Batch, Rec, batch, describe_batches
from rig.data.raw import NoAnswer, RawClient
from rig.waiting import wait_until


class Producer(Worker):
    """An idempotent producer that sends a batch again until it is acknowledged: 0, 1, 2, ..."""

    def __init__(self, port: int, topic: str, keys: int = 0, *, expires: bool = False) -> None:
        super().__init__(f"producer of {topic}", port)
        self.topic, self._keys, self._expires = topic, keys, expires
        self._producer_id = -1
        self._next = 0
        self._acknowledged: dict[int, int] = {}  # number -> offset

    def step(self) -> None:
        if self._producer_id < 0:
            answer = self.client.ask("init_producer_id", 4, transactional_id=None, producer_id=-1)
            check(answer.error_code, "init_producer_id")
            self._producer_id = answer.producer_id
        number = self._next
        key = b"k%d" % (number % self._keys) if self._keys else None
        data = Batch(
            (Rec(b"%d" % number + b"." * 500, key),),
            timestamp=int(time.time() * 1000),
            producer_id=self._producer_id,
            producer_epoch=0,
            base_sequence=number,
        ).encode()
        answer = produce(self.client, self.topic, data)
        check(answer.error_code, "produce")
        self._acknowledged[number] = answer.base_offset
        self._next += 1

    def verify(self, client: RawClient) -> Iterable[str]:
        if self._expires:
            return
        wanted = self._acknowledged
        found = {int(value.rstrip(b".")): at for at, value in read_all(client, self.topic)}
        if self._keys:
            # Of each key the last one, or one that came later and was not acknowledged.
            last = {number % self._keys: number for number in sorted(found)}
            wanted = dict(list(wanted.items())[-self._keys :])
            found |= {
                each: wanted[each] for each in wanted if last.get(each % self._keys, -1) > each
            }
        lost = [number for number, offset in wanted.items() if found.get(number) != offset]
        if lost:
            yield f"{self.topic}: {len(lost)} of {len(wanted)} are lost, as {lost[:5]}"


class Committer(Worker):
    """Commits ever larger offsets for some groups, which lie on all partitions of the topic."""

    _GROUPS = 8

    def __init__(self, port: int, topic: str) -> None:
        super().__init__("committer", port)
        self._topic = topic
        self._tried: dict[str, int] = {}
        self._acknowledged: dict[str, int] = {}

    def step(self) -> None:
        for number in range(self._GROUPS):
            group = f"g{number}"
            if not self.steps:
                self.find_coordinator(0, group)
            offset = self._tried[group] = self._tried.get(group, 0) + 1
            partition = {
                "partition_index": 0,
                "committed_offset": offset,
                "committed_leader_epoch": -1,
            }
            answer = self.client.ask(
                "offset_commit",
                8,
                group_id=group,
                generation_id_or_member_epoch=-1,
                topics=[{"name": self._topic, "partitions": [partition]}],
            )
            check(answer.topics[0].partitions[0].error_code, f"commit of {group}")
            self._acknowledged[group] = offset

    def verify(self, client: RawClient) -> Iterable[str]:
        for group, least in self._acknowledged.items():
            wanted = {
                "group_id": group,
                "topics": [{"name": self._topic, "partition_indexes": [0]}],
            }
            answer = wait_until(
                partial(_loaded_offsets, client, wanted), f"the offsets of {group}", ANSWER_S
            )
            check(answer.error_code, f"committed offset of {group}")
            offset = answer.topics[0].partitions[0].committed_offset
            if not least <= offset <= self._tried[group]:
                yield f"{group} is at {offset}, committed was {least}"


def _loaded_offsets(client: RawClient, wanted: dict[str, Any]) -> Any:
    """The answer for a group; None while its coordinator loads, after the broker's restart."""
    answer = client.ask("offset_fetch", 8, groups=[wanted]).groups[0]
    return None if answer.error_code == ErrorCode.coordinator_load_in_progress else answer


class Transactor(Worker):
    """One transaction after the other, each committed or aborted."""

    def __init__(self, port: int, topic: str) -> None:
        super().__init__("transactor", port)
        self._topic = topic
        self._producer: tuple[int, int] | None = None
        self._sequence = 0
        self._outcomes: dict[int, bool | None] = {}

    def step(self) -> None:
        try:
            if self._producer is None:
                self.find_coordinator(1, "t")
                answer = self.client.ask(
                    "init_producer_id",
                    4,
                    transactional_id="t",
                    transaction_timeout=30_000,
                    producer_id=-1,
                    producer_epoch=-1,
                )
                check(answer.error_code, "init_producer_id")
                self._producer, self._sequence = (answer.producer_id, answer.producer_epoch), 0
            self._transact(*self._producer)
        except BaseException:
            self._producer = None
            raise

    def _transact(self, producer_id: int, epoch: int) -> None:
        number = len(self._outcomes)
        who = {"transactional_id": "t", "producer_id": producer_id, "producer_epoch": epoch}
        named = {
            f"v3_and_below_{key}": value
            for key, value in (who | {"topics": [{"name": self._topic, "partitions": [0]}]}).items()
        }
        answer = self.client.ask("add_partitions_to_txn", 3, **named)
        results = answer.results_by_topic_v3_and_below[0].results_by_partition
        check(results[0].partition_error_code, "add_partitions_to_txn")
        records = tuple(Rec(b"%d %d" % (number, each)) for each in range(3))
        data = Batch(
            records,
            timestamp=int(time.time() * 1000),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=self._sequence,
            extra_attributes=0x10,
        ).encode()
        entry = {"name": self._topic, "partition_data": [{"index": 0, "records": data}]}
        answer = self.client.ask(
            "produce", 9, transactional_id="t", acks=-1, timeout=10_000, topic_data=[entry]
        )
        check(answer.responses[0].partition_responses[0].error_code, "produce in a transaction")
        self._sequence += len(records)
        self._outcomes[number] = None
        is_committed = number % 3 != 2
        answer = self.client.ask("end_txn", 3, committed=is_committed, **who)
        check(answer.error_code, "end_txn")
        self._outcomes[number] = is_committed

    def verify(self, client: RawClient) -> Iterable[str]:
        seen: dict[int, set[int]] = {}
        for _, value in read_all(client, self._topic, committed=True):
            number, part = map(int, value.split())
            seen.setdefault(number, set()).add(part)
        for number, outcome in self._outcomes.items():
            found = seen.pop(number, set())
            if outcome is not None and found != ({0, 1, 2} if outcome else set()):
                yield f"transaction {number}, {outcome}: {found} of it can be read"
            elif found not in (set(), {0, 1, 2}):
                yield f"transaction {number} is torn: {found}"
        if seen:
            yield f"transactions that were never ended can be read: {list(seen)[:5]}"


class TopicMaker(Worker):
    """Creates a topic, writes to it, and deletes it."""

    def __init__(self, port: int) -> None:
        super().__init__("topics", port)
        self._passing = ""

    def step(self) -> None:
        self._passing = f"passing-{self.steps % 5}"
        self._delete_topic()
        wanted = {"name": self._passing, "num_partitions": 2, "replication_factor": 1}
        answer = self.client.ask("create_topics", 7, topics=[wanted], timeout=5000)
        check(answer.topics[0].error_code, "create_topics")
        for partition in range(2):
            check(produce(self.client, self._passing, batch(b"x"), partition).error_code, "produce")
        check(self._delete_topic(), "delete_topics")

    def _delete_topic(self) -> int:
        topics = [{"name": self._passing, "topic_id": None}]
        answer = self.client.ask("delete_topics", 6, topics=topics, timeout=5000)
        return int(answer.responses[0].error_code)


class Reader(Worker):
    """Reads a partition from its beginning, again and again: every offset once."""

    def __init__(self, port: int, topic: str) -> None:
        super().__init__(f"reader of {topic}", port)
        self._topic = topic
        self._offset = 0

    def step(self) -> None:
        answer = fetch(self.client, self._topic, self._offset)
        check(answer.error_code, "fetch")
        for one in describe_batches(bytes(answer.records or b"")):
            if "cut_off_bytes" in one:
                break
            if one["base_offset"] > self._offset or not one["crc_is_right"]:
                self.failures.append(f"{self.name}: {self._offset} is followed by {one}")
            self._offset = one["base_offset"] + one["last_offset_delta"] + 1
        if self._offset >= answer.high_watermark:
            self._offset = 0


class GroupMember(Worker):
    """The only member of a group, by heartbeats (KIP-848) that are answered with all partitions."""

    def __init__(self, port: int, topic: str) -> None:
        super().__init__("member of a group", port)
        self._topic = topic
        self._epoch = 0

    def step(self) -> None:
        try:
            if self._epoch == 0:
                self.find_coordinator(0, "members")
            answer = self.client.ask(
                "consumer_group_heartbeat",
                1,
                group_id="members",
                member_id="it",
                member_epoch=self._epoch,
                rebalance_timeout=30_000 if self._epoch == 0 else -1,
                subscribed_topic_names=[self._topic] if self._epoch == 0 else None,
                topic_partitions=[] if self._epoch == 0 else None,
            )
            check(answer.error_code, "consumer_group_heartbeat")
            self._epoch = answer.member_epoch
        except BaseException:
            self._epoch = 0
            raise


class ShareMember(Worker):
    """The only member of a share group: fetches, and accepts what it has got."""

    def __init__(self, port: int, topic: str) -> None:
        super().__init__("member of a share group", port)
        self._topic = topic
        self._member_id = "AAAAAAAAAAAAAAAAAAAAAA"
        self._member_epoch = self._session_epoch = 0
        self._topic_id: Any = None
        self._held: list[tuple[int, int]] = []

    def step(self) -> None:
        try:
            if self._member_epoch == 0:
                self.find_coordinator(0, "sharing")
            self._heartbeat()
            self._fetch()
        except BaseException:
            self._member_epoch = self._session_epoch = 0
            self._held = []
            raise

    def _heartbeat(self) -> None:
        if self._topic_id is None:
            topics = [{"topic_id": None, "name": self._topic}]
            self._topic_id = self.client.ask("metadata", 12, topics=topics).topics[0].topic_id
        answer = self.client.ask(
            "share_group_heartbeat",
            1,
            group_id="sharing",
            member_id=self._member_id,
            member_epoch=self._member_epoch,
            subscribed_topic_names=[self._topic] if self._member_epoch == 0 else None,
        )
        check(answer.error_code, "share_group_heartbeat")
        self._member_epoch = answer.member_epoch

    def _fetch(self) -> None:
        said = [
            {"first_offset": first, "last_offset": last, "acknowledge_types": [1]}
            for first, last in self._held
        ]
        if self._session_epoch == 0:
            said = []
        partition = {"partition_index": 0, "acknowledgement_batches": said}
        answer = self.client.ask(
            "share_fetch",
            2,
            group_id="sharing",
            member_id=self._member_id,
            share_session_epoch=self._session_epoch,
            is_renew_ack=False,
            topics=[{"topic_id": self._topic_id, "partitions": [partition]}],
            max_wait=100,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=100,
            batch_size=100,
            share_acquire_mode=0,
            forgotten_topics_data=[],
        )
        check(answer.error_code, "share_fetch")
        self._session_epoch += 1
        self._held = []
        for topic in answer.responses:
            for each in topic.partitions:
                check(each.error_code, "share_fetch of a partition")
                check(each.acknowledge_error_code, "acknowledgement")
                acquired = each.acquired_records
                self._held += [(one.first_offset, one.last_offset) for one in acquired]


class HttpClient(Worker):
    """Asks for the figures."""

    def step(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_S)
        try:
            connection.request("GET", "/metrics")
            answer = connection.getresponse()
            if answer.status != 200 or b"drumlin" not in answer.read():
                raise Refused(f"HTTP {answer.status}")
        except TimeoutError:
            raise NoAnswer from None
        finally:
            connection.close()


class Comers(Worker):
    """Connects, asks something small, and goes."""

    def step(self) -> None:
        self.disconnect()
        check(self.client.ask("api_versions", 0).error_code, "api_versions")


TOPICS: Final[dict[str, dict[str, str]]] = {
    "plain": {"segment.ms": "300", "index.interval.bytes": "1000"},
    "flushed": {"flush.messages": "1", "segment.ms": "500"},
    "compacted": {
        "cleanup.policy": "compact",
        "segment.ms": "200",
        "min.cleanable.dirty.ratio": "0.01",
    },
    "in-transactions": {"segment.ms": "400"},
    "shared": {"retention.ms": "3000", "segment.ms": "300", "file.delete.delay.ms": "500"},
}


def start_all(port: int, http_port: int) -> list[Worker]:
    """A client of each kind, with the topics that they need."""
    with RawClient(port) as client:
        for topic, settings in TOPICS.items():
            create_topic(client, topic, configs=settings)
    workers = [
        Producer(port, "plain"),
        Producer(port, "flushed"),
        Producer(port, "compacted", keys=10),
        Producer(port, "shared", expires=True),
        Committer(port, "plain"),
        Transactor(port, "in-transactions"),
        TopicMaker(port),
        Reader(port, "plain"),
        GroupMember(port, "plain"),
        ShareMember(port, "shared"),
        HttpClient("figures", http_port),
        Comers("comers", port),
    ]
    for each in workers:
        each.start()
    return workers


def wait_for_all(workers: Iterable[Worker], since_s: float, timeout_s: float) -> list[str]:
    """Until each has done a step that began later; who has not, and why."""
    deadline = time.monotonic() + timeout_s
    left = list(workers)
    while left and time.monotonic() < deadline:
        time.sleep(0.02)
        left = [each for each in left if not each.has_succeeded_since(since_s)]
    return [f"{each.name}: {each.trouble or 'waits'}" for each in left]
