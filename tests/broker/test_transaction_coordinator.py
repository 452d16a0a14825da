"""The transaction coordinator in a broker: time-outs, restarts, and data of another cluster."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.raw_transactions import RawProducer
from broker.sessions import SESSION
from drumlin.broker.context import RequestContext
from drumlin.broker.handlers import list_transactions
from drumlin.clock import SystemClock
from drumlin.metadata.embedded.database import FILE_NAME
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import RequestHeader
from drumlin.wire.protocol.list_transactions import ListTransactionsRequest
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.messages import render
from rig.waiting import wait_until

SETTINGS = {
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "50",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "50",
    "transactional.id.expiration.ms": "1500",
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[DrumlinServer]:
    server = DrumlinServer(tmp_path, SETTINGS)
    server.start()
    try:
        yield server
        server.check_output()
    finally:
        server.close()


def ask(server: DrumlinServer, api: str, version: int, **fields: Any) -> Any:
    with server.connect() as client:
        return render(client.ask(api, version, **fields))


def create(server: DrumlinServer, topic: str) -> None:
    wish = {"name": topic, "num_partitions": 1, "replication_factor": 1}
    (result,) = ask(server, "create_topics", 7, topics=[wish], timeout=10_000)["topics"]
    assert result["error_code"] == "none"


def last_stable_offset(server: DrumlinServer, topic: str) -> int:
    parts = [{"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}]
    topics = [{"name": topic, "partitions": parts}]
    answer = ask(server, "list_offsets", 7, replica_id=-1, isolation_level=1, topics=topics)
    return int(answer["topics"][0]["partitions"][0]["offset"])


def states(server: DrumlinServer) -> dict[str, str]:
    """The state of each transactional id; nothing while they are loaded."""
    answer = ask(server, "list_transactions", 0)
    return {
        each["transactional_id"]: each["transaction_state"] for each in answer["transaction_states"]
    }


def new_producer(server: DrumlinServer, transactional_id: str) -> RawProducer:
    producer = RawProducer(server.connect(), transactional_id, version=12)
    producer.init()
    return producer


def new_idempotent_id(server: DrumlinServer) -> int:
    answer = ask(
        server, "init_producer_id", 4, transactional_id=None, producer_id=-1, producer_epoch=-1
    )
    assert answer["error_code"] == "none"
    return int(answer["producer_id"])


def test_nobody_holds_readers_up_for_ever(server: DrumlinServer) -> None:
    """A transaction whose time is over is aborted, and its producer is fenced."""
    create(server, "t")
    producer = RawProducer(server.connect(), "slow", version=12)
    producer.ask("find_coordinator", 4, key_type=1, coordinator_keys=["slow"])
    begun = producer.ask(
        "init_producer_id",
        5,
        transactional_id="slow",
        transaction_timeout=200,
        producer_id=-1,
        producer_epoch=-1,
    )
    producer.producer_id, producer.epoch = begun["producer_id"], begun["producer_epoch"]
    assert producer.send("t", 0)["error_code"] == "none"
    wait_until(lambda: last_stable_offset(server, "t") == 2, "the end of the transaction")
    assert producer.send("t", 1)["error_code"] == "invalid_producer_epoch"


def test_an_id_that_nobody_uses_is_forgotten(server: DrumlinServer) -> None:
    former = new_producer(server, "once")
    wait_until(lambda: states(server) == {}, "the id to expire")
    server.restart()
    assert states(server) == {}
    latter = new_producer(server, "once")
    assert (latter.epoch, latter.producer_id > former.producer_id) == (0, True)


def test_the_data_of_another_cluster(server: DrumlinServer) -> None:
    """Its transactions stay open, and no producer id in its logs is given out again."""
    create(server, "t")
    producer = new_producer(server, "id")
    assert producer.send("t", 0)["error_code"] == "none"
    idempotent = new_idempotent_id(server)
    server.stop()
    for path in server.data.glob(FILE_NAME + "*"):
        path.unlink()
    server.start()
    producer.client = server.connect()
    wait_until(lambda: states(server) == {"id": "Ongoing"}, "the ids to be loaded")
    assert producer.send("t", 1)["error_code"] == "none"
    producer.end()
    wait_until(lambda: last_stable_offset(server, "t") == 3, "the commit")
    assert new_idempotent_id(server) > max(idempotent, producer.producer_id)


def test_ids_of_any_length_are_matched_with_patterns_of_any_length(tmp_path: Path) -> None:
    """Ids that are matched in a thread, among others that are not."""
    long, short = "ab" * 10_000, "ab" * 300

    def listed(pattern: str) -> set[str]:
        states = ["Empty", "nonsense"]
        answer = ask(
            server, "list_transactions", 2, transactional_id_pattern=pattern, state_filters=states
        )
        assert answer["error_code"] == "none"
        assert answer["unknown_state_filters"] == ["nonsense"]
        return {each["transactional_id"] for each in answer["transaction_states"]}

    server = DrumlinServer(tmp_path, {"transaction.state.log.num.partitions": "2"})
    with contextlib.closing(server):
        server.start()
        for each in (long, short, long + "c", "other"):
            new_producer(server, each)
        assert listed("[ab]*a[ab]{400}.") == {long, short}
        assert listed(".*") == {long, short, long + "c", "other"}
        assert listed("[ab]*a[ab]{401}c") == {long + "c"}


def test_a_listing_that_takes_a_thread_too_long_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No other client is delayed, and the next one has its turn."""

    async def computing(function: Callable[..., bool], *args: Any) -> bool:
        matched.append(args)
        return function(*args)

    async def scenario() -> None:
        transactions = [
            SimpleNamespace(
                transactional_id="a" * 30_000,
                metadata=SimpleNamespace(producer_id=1, state=SimpleNamespace(label="Empty")),
            )
        ] * 3
        broker: Any = SimpleNamespace(
            authorizer=None,
            quotas=None,
            clock=SystemClock(),
            threads=SimpleNamespace(computing=computing),
            transactions=SimpleNamespace(
                transactions=lambda: transactions, long_matches=asyncio.Semaphore(1)
            ),
        )
        connection: Any = None
        context = RequestContext(broker, connection, RequestHeader(66, 2, 1, "c", 0), SESSION)
        request = ListTransactionsRequest(transactional_id_pattern="a+" * 20)
        answer = await list_transactions.handle(context, request)
        assert answer.error_code is ErrorCode.none
        assert len(answer.transaction_states) == len(matched) == 3
        monkeypatch.setattr(list_transactions, "_LONG_MATCHES_S", -1)
        answer = await list_transactions.handle(context, request)
        assert answer.error_code is ErrorCode.invalid_regular_expression
        assert answer.transaction_states == ()
        assert len(matched) == 3

    matched: list[Any] = []
    asyncio.run(scenario())
