"""Transactions as partitions and groups see them: batches, markers, offsets, descriptions."""

from __future__ import annotations

import random
from operator import itemgetter
from typing import Any

from differential.data.test_transactions import Producer, Transactions
from differential.now import NOW
from differential.peer import Peer
from differential.scripts import differential
from drumlin.wire.error_codes import ErrorCode
from rig.data.batches import batch
from rig.data.messages import render
from rig.waiting import wait_until

_TRANSACTIONAL = 0x10
_READ_COMMITTED = 1
_KEPT_ID = 990_000
_STEPS = 80


class Script(Transactions):
    """One producer, its topic, and what it writes there."""

    def __init__(self, peer: Peer, partitions: int = 2) -> None:
        super().__init__(peer)
        self.id = peer.unique("id")
        self.topic = peer.topic(partitions=partitions)
        self.producer = self.begin(self.id)

    def send(
        self,
        *sequences: int,
        version: int | None = None,
        partition: int = 0,
        acks: int = -1,
        transactional_id: str | None = "",
        **fields: Any,
    ) -> Any:
        """Produce one batch; `transactional_id` is the own one unless something else is said."""
        producer_id, epoch = self.producer
        plain = {"producer_id": producer_id, "producer_epoch": epoch, "timestamp": NOW}
        plain |= {"base_sequence": sequences[0], "extra_attributes": _TRANSACTIONAL}
        data = batch(*(b"%d" % each for each in sequences), **plain | fields)
        part = {"index": partition, "records": data}
        return self.peer.ask(
            "produce",
            self.peer.version_of("produce") if version is None else version,
            acks=acks,
            timeout=10_000,
            transactional_id=self.id if transactional_id == "" else transactional_id,
            topic_data=[self.peer.topic_fields(self.topic) | {"partition_data": [part]}],
        )

    def read(self, partition: int = 0, offset: int = 0) -> None:
        """Compare what READ_COMMITTED readers get."""
        wanted = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
        topics = [{"topic": self.topic, "partitions": [wanted]}]
        limits = {"max_wait": 0, "min_bytes": 0, "max_bytes": 1 << 20, "session_epoch": -1}
        self.peer.ask("fetch", 12, isolation_level=_READ_COMMITTED, topics=topics, **limits)
        parts = [{"partition_index": partition, "timestamp": -1, "current_leader_epoch": -1}]
        topics = [{"name": self.topic, "partitions": parts}]
        self.peer.ask("list_offsets", 7, replica_id=-1, isolation_level=1, topics=topics)

    def mark(self, version: int, *, partitions: tuple[int, ...] = (0,), **fields: Any) -> None:
        producer_id, epoch = self.producer
        marker = {"producer_id": producer_id, "producer_epoch": epoch, "coordinator_epoch": 0}
        topics = [{"name": self.topic, "partition_indexes": list(partitions)}]
        marker |= {"transaction_result": True, "topics": topics}
        self.peer.ask("write_txn_markers", version, markers=[marker | fields])

    def describe_producers(self, *partitions: int) -> None:
        topics = [{"name": self.topic, "partition_indexes": list(partitions or (0,))}]
        described = render(self.peer.ask_quietly("describe_producers", 0, topics=topics))
        for each in described["topics"][0]["partitions"]:
            each["active_producers"].sort(key=itemgetter("producer_id"))  # Kafka has a set of them
        self.peer.record("describe_producers", 0, described)


# -- produce -----------------------------------------------------------------------------------


@differential("produce", versions=[8, 10, 11])
def test_classic_producer(peer: Peer) -> None:
    script = Script(peer)
    peer.note("before the partition is added")
    script.send(0)
    script.add(script.id, script.producer, (script.topic, 0))
    peer.note("in a transaction")
    for sequence in (0, 1, 1, 3, 2):
        script.send(sequence)
    script.send(0, partition=1)
    script.send(3, extra_attributes=0)
    script.read()
    script.end(script.id, script.producer, committed=True, version=4)
    peer.note("when it has ended")
    script.read()
    script.send(3)
    script.send(2)
    script.send(3, extra_attributes=0)
    script.add(script.id, script.producer, (script.topic, 0))
    script.send(4)
    script.end(script.id, script.producer, committed=False, version=4)
    script.read()
    script.describe_producers(0, 1, 2)


@differential("produce", versions=[12, 13])
def test_producer_of_transactions_v2(peer: Peer) -> None:
    script = Script(peer)
    for sequence in (1, 0, 1, 1, 3, 2):
        script.send(sequence)
    script.send(0, partition=1)
    script.read()
    old = script.producer
    for committed in (False, True, True):
        script.producer = script.end(script.id, script.producer, committed=committed)
        script.read()
        peer.note("the epoch before")
        now, script.producer = script.producer, old
        script.send(3)
        script.send(0)
        script.producer = now
        peer.note("the new epoch")
        script.send(5)
        script.send(0)
        script.send(1)
        script.describe_producers(0, 1)


@differential("produce", versions=[8, 10, 11, 12])
def test_wrong_transactional_batches(peer: Peer) -> None:
    script = Script(peer)
    script.add(script.id, script.producer, (script.topic, 0))
    peer.note("ids")
    script.send(0, transactional_id=None)
    script.send(0, transactional_id=peer.unique("unheard of"))
    script.send(0, producer_id=peer.keep(_KEPT_ID))
    script.send(0, producer_id=-1)
    script.send(0, base_sequence=-1, producer_id=-1, producer_epoch=-1)
    peer.note("epochs")
    script.send(0, producer_epoch=script.producer.producer_epoch + 1)
    script.send(0, producer_epoch=-7)
    peer.note("batches")
    script.send(0, extra_attributes=_TRANSACTIONAL | 0x20)
    script.send(0, crc=7)
    script.send(0, base_sequence=-2)
    script.send(0, partition=9)
    peer.note("good")
    script.send(0)
    script.read()


@differential("produce", versions=[11, 12])
def test_fenced_producer(peer: Peer) -> None:
    script = Script(peer)
    script.add(script.id, script.producer, (script.topic, 0))
    script.send(0)
    old = script.producer
    script.producer = script.begin(script.id)
    new, script.producer = script.producer, old
    script.send(1)
    script.send(0, partition=1)
    script.producer = new
    script.send(0)
    script.read()


@differential("produce", versions=[11, 12])
def test_two_producers_in_a_request(peer: Peer) -> None:
    script, other = Script(peer), peer.unique("other")
    another = script.begin(other)
    parts = [
        {
            "index": index,
            "records": batch(
                b"a",
                timestamp=NOW,
                base_sequence=0,
                extra_attributes=_TRANSACTIONAL,
                **producer._asdict(),
            ),
        }
        for index, producer in enumerate((script.producer, another))
    ]
    topics = [{"name": script.topic, "partition_data": parts}]
    peer.ask(acks=-1, timeout=10_000, transactional_id=script.id, topic_data=topics)


# -- at random ---------------------------------------------------------------------------------


class Walk:
    """A random producer: mostly right, and wrong in all the ways that retries can be."""

    def __init__(self, script: Script, chance: random.Random, producer: Producer) -> None:
        self.script = script
        self.chance = chance
        self.producer = producer
        self.next_sequence = chance.choice([0, 0, 5, 2**31 - 2])
        self.sent: list[tuple[int, int, int]] = []  # epoch, first sequence, count

    def send(self, **fields: Any) -> None:
        chance = self.chance
        count = chance.randint(1, 3)
        epoch = self.producer.producer_epoch + chance.choice([0] * 12 + [1, -1])
        sequence = (self.next_sequence + chance.choice([0] * 8 + [1, -1])) % 2**31
        match chance.randrange(8):
            case 0:
                sequence = 0
            case 1 if self.sent:  # again, as after a connection that broke
                epoch, sequence, count = chance.choice(self.sent[-7:])
        self.script.peer.note(f"epoch {epoch}, {count} records from {sequence} on")
        sequences = [(sequence + each) % 2**31 for each in range(count)]
        answer = self.script.send(
            *sequences, producer_id=self.producer.producer_id, producer_epoch=epoch, **fields
        )
        if answer.responses[0].partition_responses[0].error_code == ErrorCode.none:
            self.sent.append((epoch, sequence, count))
            self.next_sequence = (sequence + count) % 2**31
            self.producer = Producer(self.producer.producer_id, max(epoch, self.producer[1]))


@differential("produce", versions=[8, 13])
def test_random_idempotent_producers(peer: Peer) -> None:
    """The version is the seed."""
    script, chance = Script(peer), random.Random(peer.version)
    ids = [peer.keep(_KEPT_ID + each) for each in range(3)]
    walks = [Walk(script, chance, Producer(each, 5)) for each in ids]
    for _ in range(_STEPS):
        chance.choice(walks).send(extra_attributes=0, transactional_id=None)
        if chance.random() < 0.03:
            parts = [{"partition_index": 0, "offset": -1}]
            topics = [{"name": script.topic, "partitions": parts}]
            peer.ask("delete_records", 2, topics=topics, timeout=10_000)
    script.describe_producers(0)


@differential("produce", versions=[10, 11, 12])
def test_random_transactional_producer(peer: Peer) -> None:
    """The version is the seed."""
    script, chance = Script(peer), random.Random(peer.version)
    walk = Walk(script, chance, script.producer)
    is_v2 = peer.version >= 12
    walk.next_sequence = 0
    for _ in range(_STEPS):
        match chance.randrange(20):
            case 0 | 1 | 2 if not is_v2:
                script.add(script.id, script.producer, (script.topic, 0))
            case 3 | 4:
                script.producer = script.end(
                    script.id,
                    script.producer,
                    committed=chance.random() < 0.5,
                    version=5 if is_v2 else 4,
                )
                walk.producer = script.producer
                walk.next_sequence = 0 if is_v2 else walk.next_sequence
            case 5:
                script.mark(
                    2,
                    producer_epoch=max(0, script.producer.producer_epoch + chance.choice([0, -1])),
                    transaction_version=chance.choice([0, 2]),
                )
            case 6:
                script.read()
            case _:
                walk.send(extra_attributes=chance.choice([_TRANSACTIONAL] * 9 + [0]))
                walk.producer = script.producer
    script.describe_producers(0)
    script.read()


# -- markers -----------------------------------------------------------------------------------


@differential("write_txn_markers")
def test_markers(peer: Peer) -> None:
    script = Script(peer)
    script.producer = script.begin(script.id)  # an epoch behind the first
    version = peer.version
    script.add(script.id, script.producer, (script.topic, 0))
    script.send(0, version=11)
    epoch = script.producer.producer_epoch
    for fields in (
        {"producer_epoch": epoch - 1},
        {"transaction_version": 2},
        {"coordinator_epoch": -2},
        {"partitions": (7,)},
        {"topics": [{"name": peer.unique("unknown"), "partition_indexes": [0]}]},
        {"topics": []},
    ):
        peer.note(str(fields))
        script.mark(version, **fields)
    script.read()
    for fields in (
        {"producer_epoch": epoch + 1, "transaction_version": 2},
        {"producer_epoch": epoch + 1, "transaction_version": 2},
        {"producer_epoch": epoch + 1, "transaction_version": 1},
        {"producer_epoch": epoch, "transaction_version": 2},
        {"producer_epoch": epoch + 1, "coordinator_epoch": 0, "transaction_result": False},
        {"producer_epoch": epoch + 1, "coordinator_epoch": -1},
        {"producer_id": peer.keep(_KEPT_ID), "partitions": (0, 1)},
    ):
        peer.note(str(fields))
        script.mark(version, **fields)
    peer.ask("write_txn_markers", version, markers=[])
    script.describe_producers(0, 1)
    script.read()


@differential("describe_producers")
def test_describe_producers(peer: Peer) -> None:
    script = Script(peer)
    script.describe_producers(0, 1, 0, 5)
    script.send(0, 1, version=12)
    peer.produce(
        script.topic,
        b"a",
        timestamp=NOW,
        producer_id=peer.keep(7_700_077),
        producer_epoch=3,
        base_sequence=5,
    )
    script.describe_producers(0)
    script.mark(2, producer_epoch=script.producer.producer_epoch + 1, coordinator_epoch=0)
    script.describe_producers(0)
    for name in ("a b", "", peer.unique("unknown")):
        peer.ask(topics=[{"name": name, "partition_indexes": [0]}])
    peer.ask(topics=[])


# -- offsets in transactions -------------------------------------------------------------------


def _offset(index: int = 0, offset: int = 5, **fields: Any) -> dict[str, Any]:
    plain = {"partition_index": index, "committed_offset": offset, "committed_leader_epoch": -1}
    return plain | {"committed_metadata": "note"} | fields


class Offsets(Script):
    """A producer that commits offsets of a group."""

    def __init__(self, peer: Peer) -> None:
        super().__init__(peer)
        self.peer.await_coordinator(self.group)

    def commit(self, *offsets: dict[str, Any], version: int | None = None, **fields: Any) -> Any:
        producer_id, epoch = self.producer
        request = {
            "transactional_id": self.id,
            "group_id": self.group,
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "generation_id": -1,
            "topics": [{"name": self.topic, "partitions": list(offsets)}],
        }
        return self.peer.ask("txn_offset_commit", version, **request | fields)

    def committed(self) -> None:
        topics = [{"name": self.topic, "partition_indexes": [0, 1]}]
        for each in (topics, None):
            for stable in (False, True):
                groups = [{"group_id": self.group, "topics": each, "member_epoch": -1}]
                self.peer.ask("offset_fetch", 9, groups=groups, require_stable=stable)

    def await_stable(self) -> None:
        """Set-up: wait until the marker is there."""
        topics = [{"name": self.topic, "partition_indexes": [0, 1]}]
        groups = [{"group_id": self.group, "topics": topics, "member_epoch": -1}]

        def is_stable() -> bool:
            answer = self.peer.ask_quietly("offset_fetch", 9, groups=groups, require_stable=True)
            parts = answer.groups[0].topics[0].partitions
            return all(each.error_code == ErrorCode.none for each in parts)

        wait_until(is_stable, "the end of the transaction")


@differential("txn_offset_commit")
def test_offsets_in_a_transaction(peer: Peer) -> None:
    script = Offsets(peer)
    peer.note("before the group is added")
    script.commit(_offset())
    script.add_offsets(script.id, script.producer, version=3)
    peer.note("in the transaction")
    script.commit(_offset(), _offset(1, 7))
    script.commit(_offset(0, 6, committed_metadata=None))
    script.committed()
    for committed in (True, False):
        v2 = peer.version >= 5
        script.producer = script.end(
            script.id, script.producer, committed=committed, version=5 if v2 else 4
        )
        script.await_stable()
        script.committed()
        peer.note("the next transaction")
        script.commit(_offset(0, 9))
        script.add_offsets(script.id, script.producer, version=3)
        script.commit(_offset(0, 10))
        script.committed()
    peer.ask("describe_groups", 5, groups=[script.group])


@differential("txn_offset_commit", versions=[0, 3, 4, 5])
def test_wrong_offsets_in_a_transaction(peer: Peer) -> None:
    script = Offsets(peer)
    script.add_offsets(script.id, script.producer, version=3)
    peer.note("positions")
    script.commit(_offset(5), _offset(0), _offset(-1))
    script.commit(_offset(0, -1), _offset(1, -7))
    script.commit(_offset(committed_metadata="x" * 4097), _offset(1))
    script.commit()
    unknown = [{"name": peer.unique("unknown"), "partitions": [_offset()]}]
    script.commit(topics=unknown)
    script.commit(topics=[])
    peer.note("who")
    script.commit(_offset(), group_id="")
    script.commit(_offset(), transactional_id=peer.unique("unheard of"))
    script.commit(_offset(), transactional_id="")
    script.commit(_offset(), producer_id=peer.keep(_KEPT_ID))
    script.commit(_offset(), producer_epoch=script.producer.producer_epoch + 1)
    script.commit(_offset(), producer_epoch=-9)
    script.commit(_offset(), generation_id=3)
    script.commit(_offset(), member_id=peer.keep("nobody"))
    script.commit(_offset(), group_instance_id="nobody's")
    other = peer.unique("other group")
    script.commit(_offset(), group_id=other, generation_id=3)
    script.committed()


@differential("txn_offset_commit", versions=[3, 5])
def test_plain_and_transactional_offsets(peer: Peer) -> None:
    """What was written last counts, whenever the transaction ends."""
    script = Offsets(peer)
    script.add_offsets(script.id, script.producer, version=3)

    def plainly(offset: int) -> None:
        topics = [{"name": script.topic, "partitions": [_offset(0, offset)]}]
        request = {"generation_id_or_member_epoch": -1, "topics": topics}
        peer.ask("offset_commit", 8, group_id=script.group, **request)

    plainly(1)
    script.commit(_offset(0, 2), _offset(1, 2))
    plainly(3)
    script.committed()
    topics = [{"name": script.topic, "partitions": [{"partition_index": 1}]}]
    peer.ask("offset_delete", 0, group_id=script.group, topics=topics)
    script.committed()
    script.end(script.id, script.producer, committed=True, version=4)
    script.await_stable()
    script.committed()
    peer.ask("delete_groups", 2, groups_names=[script.group])
    script.committed()
