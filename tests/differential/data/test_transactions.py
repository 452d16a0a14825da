"""The transaction coordinator: ordinary, late and confused producers, and what its log says.

A script waits until a transaction that was ended is complete before it asks on: when that is
differs from broker to broker.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from differential import described_transactions
from differential.compare import Step
from differential.peer import Peer
from differential.scripts import Broker, Brokers, all_versions, differential
from drumlin.coordination.shards.state_partitions import partition_for
from drumlin.coordination.transactions.records import decode_key, decode_value, encode_value
from drumlin.metadata.names import TRANSACTION_STATE
from drumlin.records.plain.record import Record, decode_records
from drumlin.wire.error_codes import ErrorCode
from rig.data.messages import render
from rig.data.raw import RawClient
from rig.waiting import wait_until

_WAIT_S = 10.0
_STEPS = 150


class Producer(NamedTuple):
    producer_id: int
    producer_epoch: int


_NOBODY = Producer(-1, -1)


class Transactions:
    """Requests to one broker in the name of producers with transactional ids."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.group = peer.unique("group")

    # -- requests --------------------------------------------------------------------------

    def init(
        self,
        transactional_id: str,
        version: int = 5,
        timeout_ms: int = 60_000,
        expected: Producer | None = None,
    ) -> Producer:
        answer = self.peer.ask(
            "init_producer_id",
            version,
            transactional_id=transactional_id,
            transaction_timeout=timeout_ms,
            **(expected or _NOBODY)._asdict(),
        )
        self.await_rest(transactional_id)
        return Producer(answer.producer_id, answer.producer_epoch)

    def begin(self, transactional_id: str, version: int = 5, timeout_ms: int = 60_000) -> Producer:
        """Set-up: a producer that can begin, whatever went on before."""

        def begun() -> Producer | None:
            # Kafka creates the coordinator's topic when it is looked for.
            request = {"coordinator_keys": [transactional_id], "key_type": 1}
            self.peer.ask_quietly("find_coordinator", 4, **request)
            answer = self.peer.ask_quietly(
                "init_producer_id",
                version,
                transactional_id=transactional_id,
                transaction_timeout=timeout_ms,
                producer_id=-1,
                producer_epoch=-1,
            )
            if answer.error_code != ErrorCode.none:
                return None
            return Producer(answer.producer_id, answer.producer_epoch)

        return wait_until(begun, f"a producer for {transactional_id}", _WAIT_S)

    def add(
        self,
        transactional_id: str,
        producer: Producer,
        *partitions: tuple[str, int],
        version: int = 3,
        verify_only: bool = False,
    ) -> None:
        indexes: dict[str, list[int]] = {}
        for topic, index in partitions:
            indexes.setdefault(topic, []).append(index)
        topics = [{"name": topic, "partitions": each} for topic, each in indexes.items()]
        old = {f"v3_and_below_{name}": value for name, value in producer._asdict().items()}
        transaction = producer._asdict() | {"transactional_id": transactional_id}
        self.peer.ask(
            "add_partitions_to_txn",
            version,
            **old,
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_topics=topics,
            transactions=[transaction | {"verify_only": verify_only, "topics": topics}],
        )

    def add_offsets(self, transactional_id: str, producer: Producer, version: int = 4) -> None:
        self.peer.ask(
            "add_offsets_to_txn",
            version,
            transactional_id=transactional_id,
            group_id=self.group,
            **producer._asdict(),
        )

    def end(
        self, transactional_id: str, producer: Producer, *, committed: bool, version: int = 5
    ) -> Producer:
        answer = self.peer.ask(
            "end_txn",
            version,
            transactional_id=transactional_id,
            committed=committed,
            **producer._asdict(),
        )
        self.await_rest(transactional_id)
        if answer.error_code == ErrorCode.none and version >= 5:
            return Producer(answer.producer_id, answer.producer_epoch)
        return producer

    def describe(self, *transactional_ids: str) -> None:
        with RawClient(self.peer.port) as client:
            client.send("describe_transactions", 0, transactional_ids=list(transactional_ids))
            described = described_transactions.read(client.receive_frame())
        self.peer.record("describe_transactions", 0, described)

    # -- waiting ---------------------------------------------------------------------------

    def await_rest(self, transactional_id: str) -> None:
        """Set-up: wait until all markers are written."""

        def at_rest() -> bool:
            return not self.state(transactional_id).startswith("Prepare")

        wait_until(at_rest, f"{transactional_id} to be complete", _WAIT_S)

    def state(self, transactional_id: str) -> str:
        """Set-up: the name of its state; empty if it was never used."""
        answer = self.peer.ask_quietly("list_transactions", 0)
        states = {each.transactional_id: each for each in answer.transaction_states}
        found = states.get(transactional_id)
        return "" if found is None else str(found.transaction_state)

    def log_of(self, transactional_id: str, partition_count: int) -> list[Record]:
        """Set-up: all that the coordinator's log says of an id."""
        partition = partition_for(transactional_id, partition_count)
        wanted = {"partition": partition, "current_leader_epoch": -1, "fetch_offset": 0}
        wanted |= {"partition_max_bytes": 1 << 24, "last_fetched_epoch": -1, "log_start_offset": -1}
        answer = self.peer.ask_quietly(
            "fetch",
            12,
            replica_id=-1,
            max_wait=1000,
            max_bytes=1 << 24,
            session_epoch=-1,
            topics=[{"topic": TRANSACTION_STATE, "partitions": [wanted]}],
        )
        records = decode_records(answer.responses[0].partitions[0].records)
        return [each for each in records if each.key and decode_key(each.key) == transactional_id]


# -- single cases --------------------------------------------------------------------------


@differential("find_coordinator")
def test_find_the_coordinator(peer: Peer) -> None:
    Transactions(peer).begin(peer.unique("id"))
    names = [peer.unique("id"), ""]
    peer.ask(key=names[0], coordinator_keys=names, key_type=1)


@differential("init_producer_id")
def test_init(peer: Peer) -> None:
    ours, name = Transactions(peer), peer.unique("id")
    ours.begin(peer.unique("warm-up"))
    version = peer.version
    for timeout_ms in (-1, 0, 900_001, 2**31 - 1):
        peer.note(f"a timeout of {timeout_ms} ms")
        ours.init(name, version, timeout_ms)
    peer.note("")
    ours.init("", version)
    first = ours.init(name, version)
    second = ours.init(name, version, 900_000)
    if version >= 3:
        for producer in (
            second,
            second,  # again, as the answer was lost
            first,
            second._replace(producer_epoch=7),
            Producer(second.producer_id + 100_000, 0),
            Producer(second.producer_id, -1),
            Producer(-1, 0),
        ):
            peer.note(str(producer.producer_epoch))
            ours.init(name, version, expected=producer)
            ours.describe(name)
    ours.describe(name, "", peer.unique("unknown"))


@differential("init_producer_id")
def test_init_while_a_transaction_goes_on(peer: Peer) -> None:
    ours, name, topic = Transactions(peer), peer.unique("id"), peer.topic()
    producer = ours.begin(name)
    ours.add(name, producer, (topic, 0))
    ours.init(name, peer.version)
    ours.describe(name)
    ours.add(name, producer, (topic, 0))
    ours.end(name, producer, committed=True, version=3)
    ours.init(name, peer.version)
    ours.describe(name)


@differential("add_partitions_to_txn")
def test_add_partitions(peer: Peer) -> None:
    ours, name, topic = Transactions(peer), peer.unique("id"), peer.topic(partitions=3)
    version = peer.version
    producer = ours.begin(name)
    ours.add(name, producer, (topic, 7), (topic, 0), (peer.unique("unknown"), 0), version=version)
    ours.describe(name)
    for partitions in ([(topic, 0)], [(topic, 0)], [(topic, 0), (topic, 2)], []):
        ours.add(name, producer, *partitions, version=version)
        ours.describe(name)
    for other in (
        producer._replace(producer_epoch=producer.producer_epoch + 1),
        producer._replace(producer_epoch=-1),
        producer._replace(producer_id=producer.producer_id + 100_000),
    ):
        ours.add(name, other, (topic, 1), version=version)
    ours.add(peer.unique("nobody's"), producer, (topic, 1), version=version)
    ours.add("", producer, (topic, 1), version=version)
    if version >= 4:
        for partitions in ([(topic, 0), (topic, 1)], [(topic, 7), (topic, 0)]):
            ours.add(name, producer, *partitions, version=version, verify_only=True)
        ours.add(peer.unique("nobody's"), producer, (topic, 0), version=version, verify_only=True)
        late = producer._replace(producer_epoch=producer.producer_epoch - 1)
        ours.add(name, late, (topic, 0), version=version, verify_only=True)
    ours.end(name, producer, committed=False, version=3)


@differential("add_offsets_to_txn")
def test_add_offsets(peer: Peer) -> None:
    ours, name = Transactions(peer), peer.unique("id")
    peer.await_coordinator(ours.group)
    producer = ours.begin(name)
    ours.add_offsets(name, producer._replace(producer_epoch=5), peer.version)
    ours.add_offsets(name, producer._replace(producer_id=1 << 40), peer.version)
    ours.add_offsets(peer.unique("nobody's"), producer, peer.version)
    ours.add_offsets("", producer, peer.version)
    ours.add_offsets(name, producer, peer.version)
    ours.describe(name)
    ours.end(name, producer, committed=True, version=3)


@differential("end_txn")
def test_end(peer: Peer) -> None:
    ours, name, topic = Transactions(peer), peer.unique("id"), peer.topic(partitions=2)
    version = peer.version
    for committed in (True, False):
        peer.note(f"committed: {committed}")
        producer = ours.begin(name)
        ours.end(name, producer, committed=True, version=version)  # there is nothing
        ours.add(name, producer, (topic, 0), (topic, 1))
        ours.end(name, producer._replace(producer_epoch=99), committed=True, version=version)
        ours.end(name, producer._replace(producer_id=1 << 40), committed=True, version=version)
        ours.end(name, producer, committed=committed, version=version)
        ours.describe(name)
        ours.end(name, producer, committed=committed, version=version)  # once more
        ours.end(name, producer, committed=not committed, version=version)
        ours.describe(name)
    ours.end(peer.unique("nobody's"), producer, committed=True, version=version)
    ours.end("", producer, committed=True, version=version)


@differential("end_txn", versions=[5])
def test_abort_of_nothing(peer: Peer) -> None:
    ours, name = Transactions(peer), peer.unique("id")
    producer = ours.begin(name)
    for _ in range(2):
        producer = ours.end(name, producer, committed=False)
        ours.describe(name)


@differential("list_transactions")
def test_list(peer: Peer) -> None:
    ours, topic = Transactions(peer), peer.topic()
    names = [peer.unique(f"id-{index}") for index in range(3)]
    producers = [ours.begin(name) for name in names]
    ours.add(names[1], producers[1], (topic, 0))
    ours.add(names[2], producers[2], (topic, 0))
    ours.end(names[2], producers[2], committed=True, version=3)
    prefix = peer.unique("id-")
    for fields in (
        {},
        {"state_filters": ["Ongoing"]},
        {"state_filters": ["Ongoing", "CompleteCommit", "Nonsense", "ongoing", ""]},
        {"state_filters": ["Nonsense"]},
        {"state_filters": ["Dead", "PrepareEpochFence", "PrepareAbort"]},
        {"producer_id_filters": [producers[0].producer_id, producers[1].producer_id]},
        {"producer_id_filters": [1 << 40]},
        {"state_filters": ["Empty"], "producer_id_filters": [producers[0].producer_id]},
    ):
        peer.note(str(list(fields)))
        _list(peer, names, **fields)
    if peer.version >= 1:
        for duration_ms in (-5, 0, 600_000, 2**62):
            peer.note(f"longer than {duration_ms} ms")
            _list(peer, names, duration_filter=duration_ms)
    if peer.version >= 2:
        for pattern in (f"{prefix}.", f"{prefix}[01]", prefix, "", ".*-1", "(", "a{2,1}", "x**"):
            peer.note(f"like {pattern}")
            _list(peer, names, transactional_id_pattern=pattern)
    ours.end(names[1], producers[1], committed=False, version=3)


def _list(peer: Peer, names: list[str], **fields: Any) -> None:
    filters = {"duration_filter": -1, "transactional_id_pattern": None} | fields
    answer = peer.ask_quietly("list_transactions", peer.version, **filters)
    listed = render(answer)
    listed["transaction_states"] = [
        each for each in listed["transaction_states"] if each["transactional_id"] in names
    ]
    peer.record("list_transactions", peer.version, listed)


# -- at random -----------------------------------------------------------------------------


@pytest.mark.kafka
@pytest.mark.parametrize("seed", range(3))
def test_random_producers(brokers: Brokers, seed: int) -> None:
    """Requests at random, with what producers know now or knew once, and what the log says then."""

    def run(name: str, broker: Broker) -> tuple[list[Step], Any]:
        peer = Peer(name, broker.port, f"producers-{seed}", "all", 0)
        chance = random.Random(seed)
        ours = Transactions(peer)
        topic = peer.topic(partitions=3)
        peer.await_coordinator(ours.group)
        ids = [peer.unique("id-0"), peer.unique("id-1")]
        known = {each: [ours.begin(each)] for each in ids}
        for _ in range(_STEPS):
            _random_step(ours, chance, chance.choice(ids), known, topic)
        partition_count = _partition_count(peer)
        logs = [[*map(repr, _told(ours.log_of(each, partition_count)))] for each in ids]
        peer.close()
        return peer.steps, logs

    brokers.compare(__name__, f"producers[{seed}]", run, f"random producers of seed {seed}")


def _random_step(
    ours: Transactions,
    chance: random.Random,
    name: str,
    known: dict[str, list[Producer]],
    topic: str,
) -> None:
    latest, mine = known[name][-1], known[name]
    producer = latest if chance.random() < 0.75 else chance.choice(mine[-3:])
    if chance.random() < 0.05:
        producer = known[chance.choice(list(known))][-1]
    action = chance.choice(["init", "add", "add", "add", "offsets", "end", "end", "end"])
    if action == "init":
        expected = producer if chance.random() < 0.7 else _NOBODY
        version = chance.choice(range(3, 6))
        ours.peer.note(f"init of {name}, expected epoch {expected.producer_epoch}")
        gone_on = ours.init(name, version, expected=expected)
        if gone_on != _NOBODY:
            mine.append(gone_on)
    elif action == "add":
        partitions = [(topic, index) for index in chance.sample(range(3), chance.randint(1, 2))]
        version = chance.choice(all_versions("add_partitions_to_txn"))
        ours.peer.note(f"add to {name} with epoch {producer.producer_epoch}")
        ours.add(name, producer, *partitions, version=version, verify_only=chance.random() < 0.3)
    elif action == "offsets":
        ours.peer.note(f"offsets to {name} with epoch {producer.producer_epoch}")
        ours.add_offsets(name, producer)
    else:
        committed = chance.random() < 0.5
        version = chance.choice([3, 5, 5])
        ours.peer.note(f"end of {name} with epoch {producer.producer_epoch}: {committed}")
        gone_on = ours.end(name, producer, committed=committed, version=version)
        if gone_on != mine[-1]:
            mine.append(gone_on)
    ours.describe(name)


def _partition_count(peer: Peer) -> int:
    answer = peer.ask_quietly("metadata", 12, topics=[{"name": TRANSACTION_STATE}])
    return len(answer.topics[0].partitions)


def _told(records: list[Record]) -> Iterator[Any]:
    """What the log says, with the producer ids by their order and without moments."""
    ids: dict[int, int] = {-1: -1}
    for record in records:
        assert record.value is not None
        said = decode_value(record.value)
        if len({topic for topic, _ in said.partitions}) < 2 > len(said.partitions):
            assert encode_value(said) == record.value  # byte by byte
        yield (
            said.state,
            said.producer_epoch,
            said.timeout_ms,
            {index for _, index in said.partitions},
            said.client_version,
            said.start_timestamp_ms == -1,
            [
                ids.setdefault(each, len(ids))
                for each in (said.producer_id, said.previous_producer_id, said.next_producer_id)
            ],
        )
