"""A transaction is whole although connections break, and the broker dies, around any request."""

from __future__ import annotations

import itertools
import random
import uuid
from collections.abc import Iterator

import pyarrow as pa
import pytest

import drumlin
from client.transactions.reading import await_committed, offsets_of, rows
from drumlin import lowlevel
from drumlin.client.admin.committed_offsets import OffsetAndMetadata
from drumlin.client.client import Client
from drumlin.client.transactions.errors import OutcomeUnknown
from drumlin.wire.messages import API_KEYS
from rig.brokers.drumlin_server import DrumlinServer
from rig.fault_injection.cutting_proxy import Cut, CuttingProxy
from rig.ports import free_ports
from rig.waiting import wait_until

APIS = [
    "find_coordinator",
    "init_producer_id",
    "add_partitions_to_txn",
    "produce",
    "add_offsets_to_txn",
    "txn_offset_commit",
    "end_txn",
]
ALL_APIS = frozenset(API_KEYS[name] for name in APIS)


class Cluster:
    """One broker behind a proxy that cuts."""

    def __init__(self, server: DrumlinServer, proxy: CuttingProxy) -> None:
        self.server = server
        self.proxy = proxy
        self.address = f"127.0.0.1:{proxy.port}"

    def restart(self) -> None:
        self.server.kill()
        self.server.start()

    def cut(self, apis: frozenset[int], cuts: Iterator[Cut], *, kills: bool = False) -> None:
        self.proxy.apis = apis
        self.proxy.after_cut = self.restart if kills else lambda: None
        self.proxy.cuts = cuts


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    port = free_ports(1)[0]
    told = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    server = DrumlinServer(tmp_path_factory.mktemp("cut"), told)
    try:
        server.start()
        with CuttingProxy(lambda: server.port, port) as proxy:
            yield Cluster(server, proxy)
    finally:
        server.close()
    server.check_output()


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    cluster.cut(frozenset(), iter(()))
    options = {"retry_backoff_ms": 2, "call_timeout_ms": 60_000}
    with drumlin.connect(cluster.address, **options) as client:
        yield client


@pytest.fixture
def topic(client: Client) -> str:
    name = f"t-{uuid.uuid4().hex[:12]}"
    client.create_topic(name, 3)
    return name


def once(cut: Cut, nth: int) -> Iterator[Cut]:
    yield from [None] * nth
    yield cut


@pytest.mark.parametrize(
    ("cut", "kills"),
    [
        pytest.param("before", False, id="before-connection"),
        pytest.param("after", False, id="after-connection"),
        pytest.param("before", True, id="before-broker", marks=pytest.mark.deep),
        pytest.param("after", True, id="after-broker"),
    ],
)
@pytest.mark.parametrize("api", APIS)
def test_a_cut_around_one_request(
    cluster: Cluster, client: Client, topic: str, api: str, cut: Cut, kills: bool
) -> None:
    group = f"g-{topic}"
    client.list_topics()
    cluster.cut(frozenset({API_KEYS[api]}), once(cut, 0), kills=kills)
    with client.transaction(topic) as transaction:
        transaction.append(rows(*"abcdef"), topic)
        transaction.send_offsets({(topic, 1): OffsetAndMetadata(7, "seven")}, group)
        transaction.append(rows(*"ghijkl"), topic)
    assert next(cluster.proxy.cuts, None) is None
    await_committed(client, topic, list("abcdefghijkl"))
    wait_until(lambda: (topic, 1) in offsets_of(client, group), "the offset to be committed")
    assert offsets_of(client, group)[topic, 1][:2] == (7, "seven")


@pytest.mark.parametrize(
    "seed", [0, 1, 2, *(pytest.param(n, marks=pytest.mark.deep) for n in range(3, 8))]
)
def test_cuts_at_random(cluster: Cluster, client: Client, topic: str, seed: int) -> None:
    """Several transactions, one after the other; also those that are ended by another client."""
    rng = random.Random(seed)
    expected = []
    cuts: list[Cut] = [rng.choice(["before", "after", None, None, None]) for _ in range(120)]
    cluster.cut(ALL_APIS, iter(cuts))
    for number in range(6):
        values = [f"{number}-{each}" for each in range(rng.randrange(1, 40))]
        transaction = client.transaction(f"{topic}-{rng.randrange(2)}")
        transaction.append(rows(*values), topic, batch_bytes=rng.choice([200, 1_000_000]))
        is_commit = rng.random() < 0.7
        if rng.random() < 0.5:
            lowlevel.end_transaction(client, lowlevel.detach(transaction), commit=is_commit)
        elif is_commit:
            transaction.commit()
        else:
            transaction.abort()
        expected += values if is_commit else []
    cluster.cut(frozenset(), iter(()))
    await_committed(client, topic, expected)


def test_a_broker_that_is_gone_leaves_the_outcome_unknown(
    cluster: Cluster, client: Client, topic: str
) -> None:
    """... until a broker answers: the same commit, asked again, is done."""
    with drumlin.connect(cluster.address, call_timeout_ms=1_000) as impatient:
        transaction = impatient.transaction(topic)
        transaction.append(rows("a"), topic)
        cluster.server.kill()
        try:
            for _ in range(2):
                with pytest.raises(OutcomeUnknown, match="no answer to the commit"):
                    transaction.commit()
            assert transaction.state == "unknown"
        finally:
            cluster.server.start()
        wait_until(lambda: client.list_topics() is not None, "the broker to answer")
        transaction.commit()
        assert transaction.state == "committed"
    await_committed(client, topic, ["a"])


def test_a_commit_whose_answer_was_lost_is_not_aborted_by_the_block(
    cluster: Cluster, client: Client, topic: str
) -> None:
    with drumlin.connect(cluster.address, call_timeout_ms=1_000) as impatient:
        forever = iter(["after"] * 1_000)
        with pytest.raises(OutcomeUnknown), impatient.transaction(topic) as transaction:
            transaction.append(rows("a"), topic)
            cluster.cut(frozenset({API_KEYS["end_txn"]}), forever)
        assert transaction.state == "unknown"
    cluster.cut(frozenset(), iter(()))
    await_committed(client, topic, ["a"])


def test_a_coordinator_that_is_known_is_not_asked_for(
    cluster: Cluster, client: Client, topic: str
) -> None:
    name = f"known-{topic}"
    with client.transaction(name) as transaction:
        transaction.append(pa.table({"value": ["a"]}), topic)
        transaction.send_offsets({(topic, 0): 1}, name)
    assert client.committed_offsets(name, require_stable=True)
    cluster.cut(frozenset({API_KEYS["find_coordinator"]}), itertools.repeat("before"))
    with client.transaction(name) as transaction:
        transaction.append(pa.table({"value": ["b"]}), topic)
        transaction.send_offsets({(topic, 0): 2}, name)
    assert client.describe_transactions([name])[name].epoch == transaction.epoch
    assert client.committed_offsets(name, require_stable=True)[topic, 0].offset == 2
