"""Without retries nothing is written twice; with them nothing is, and nothing is missing.

A real broker, behind a proxy that cuts connections before or after a produce request gets there.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import drumlin
from drumlin.client.client import Client
from drumlin.client.errors import DeliveryFailed
from rig.brokers.drumlin_server import DrumlinServer
from rig.fault_injection.cutting_proxy import Cut, CuttingProxy
from rig.ports import free_ports
from rig.waiting import wait_until

ROWS = [b"%d" % number for number in range(80)]


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CuttingProxy]:
    port = free_ports(1)[0]
    told = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    server = DrumlinServer(tmp_path_factory.mktemp("proxied"), told)
    try:
        server.start()
        with CuttingProxy(lambda: server.port, port) as proxy:
            yield proxy
    finally:
        server.close()
    server.check_output()


@pytest.fixture
def client(proxy: CuttingProxy) -> Iterator[Client]:
    with drumlin.connect(f"127.0.0.1:{proxy.port}", retry_backoff_ms=2) as client:
        yield client


@pytest.fixture
def topic(client: Client) -> str:
    name = f"t-{uuid.uuid4().hex[:12]}"
    client.create_topic(name, 1)
    return name


def random_cuts(seed: int) -> Iterator[Cut]:
    rng = random.Random(seed)
    for _ in range(60):
        yield rng.choice(["before", "after", None, None, None])


def written(client: Client, topic: str) -> list[bytes]:
    found: list[bytes] = client.read(topic)["value"].to_pylist()
    return found


def in_order(values: list[bytes]) -> bool:
    return values == sorted(values, key=int)


def one_by_one(client: Client, topic: str, **options: Any) -> list[DeliveryFailed | None]:
    """Write each in a batch of its own; why it failed, if it did."""
    outcomes: list[DeliveryFailed | None] = []
    told: list[BaseException | None] = []
    with client.writer(
        topic, max_records=1, on_delivery=lambda _, error: told.append(error), **options
    ) as writer:
        deliveries = [writer.send(value) for value in ROWS]
        writer.flush(timeout_ms=60_000)
    for delivery in deliveries:
        try:
            delivery.result(timeout_ms=0)
            outcomes.append(None)
        except DeliveryFailed as error:
            outcomes.append(error)
    assert len(told) == len(ROWS)
    return outcomes


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("acks", ["all", 1])
def test_no_retries(proxy: CuttingProxy, client: Client, topic: str, acks: Any, seed: int) -> None:
    before = proxy.produce_count
    proxy.cuts = random_cuts(seed)
    outcomes = one_by_one(client, topic, acks=acks, retries=0)
    assert proxy.produce_count - before <= len(ROWS), "a batch was sent again"
    values = written(client, topic)
    assert len(set(values)) == len(values)
    assert in_order(values)
    for value, failure in zip(ROWS, outcomes, strict=True):
        if failure is None:
            assert value in values
        else:
            assert failure.may_be_written or value not in values
    told_failed = [value for value, failure in zip(ROWS, outcomes, strict=True) if failure]
    assert set(told_failed) & set(values), "no answer was lost"
    assert set(told_failed) - set(values), "no request was lost"


@pytest.mark.parametrize("retries", [None, 0, 3])
def test_no_acks(proxy: CuttingProxy, client: Client, topic: str, retries: int | None) -> None:
    """Nothing reports what was lost, and whatever the retries, nothing is sent again."""
    before = proxy.produce_count
    proxy.cuts = random_cuts(1)
    outcomes = one_by_one(client, topic, acks=0, retries=retries)
    assert outcomes == [None] * len(ROWS)
    assert proxy.produce_count - before <= len(ROWS)
    proxy.cuts = iter(())
    client.append(pa.table({"value": [b"999"]}), topic)
    values = written(client, topic)
    assert len(set(values)) == len(values)


def test_an_append_without_retries(proxy: CuttingProxy, client: Client, topic: str) -> None:
    table = pa.table({"value": ROWS})
    proxy.cuts = iter([None, "after"])
    with pytest.raises(DeliveryFailed, match="connection closed") as failed:
        client.append(table, topic, retries=0, batch_bytes=200)
    assert failed.value.may_be_written
    values = written(client, topic)
    assert len(values) > failed.value.acknowledged > 0
    assert len(set(values)) == len(values)
    assert in_order(values)


@pytest.mark.parametrize("seed", range(3))
def test_retries_write_each_once(
    proxy: CuttingProxy, client: Client, topic: str, seed: int
) -> None:
    proxy.cuts = random_cuts(seed)
    assert one_by_one(client, topic) == [None] * len(ROWS)
    assert written(client, topic) == ROWS


def test_a_client_that_is_closed_has_handed_on_what_nobody_acknowledges(
    proxy: CuttingProxy, client: Client, topic: str
) -> None:
    """An append is done when the operating system has its records, and so bounded in memory."""
    count, size = 300, 100_000
    with drumlin.connect(client.bootstrap) as other:
        report = other.append(pa.table({"value": [b"x" * size] * count}), topic, acks=0)
    assert report.record_count == count
    wait_until(lambda: client.offsets(topic)[0] == count, "all records")
