"""`kill -9` under load, many times: what was acknowledged is there, once, at its offset."""

from __future__ import annotations

import random

import pytest
from confluent_kafka import Producer

from crash.conftest import MakeServer
from crash.idempotent_producer import IdempotentProducer
from crash.requests import await_coordinator, commit, committed, create_topic, read_all
from rig.brokers.drumlin_server import DrumlinServer
from rig.depth import seeds, so_many
from rig.waiting import wait_until

_KILLS = so_many(3, 10)
_SMALL_SEGMENTS = {"segment.bytes": "1048576", "index.interval.bytes": "4096"}


def _kill_and_restart(server: DrumlinServer) -> None:
    server.kill()
    server.start()


def _numbers(values: list[bytes]) -> list[int]:
    return [int(value.rstrip(b".")) for value in values]


@pytest.mark.parametrize("seed", seeds(1, 10))
def test_idempotent_producers_through_kills(make_server: MakeServer, seed: int) -> None:
    server = make_server({"offsets.topic.num.partitions": "2"})
    partitions = range(3)
    with server.connect() as client:
        create_topic(client, "t", len(partitions), _SMALL_SEGMENTS)
        await_coordinator(client, "g")
    producers = [IdempotentProducer(server.port, "t", each) for each in partitions]
    for producer in producers:
        producer.start()
    chance = random.Random(20131 + seed)
    for number in range(_KILLS):
        with server.connect() as client:
            await_coordinator(client, "g")
            commit(client, "g", "t", number)
        enough = [each.count + 20 * chance.randint(1, 40) for each in producers]

        def has_enough(enough: list[int] = enough) -> bool:
            ended = [each.failure for each in producers if not each.is_alive()]
            assert not ended, ended
            return all(map(int.__ge__, [each.count for each in producers], enough))

        wait_until(has_enough, f"progress before kill {number}")
        _kill_and_restart(server)
        with server.connect() as client:
            await_coordinator(client, "g")
            assert committed(client, "g", "t") == number
    for producer in producers:
        producer.finish()
    with server.connect() as client:
        for partition, producer in zip(partitions, producers, strict=True):
            values = _numbers(read_all(client, "t", partition))
            assert values == list(range(producer.count))
            assert all(each.base_offset == each.first_number for each in producer.acknowledged)


@pytest.mark.deep
@pytest.mark.clients
def test_librdkafka_through_kills(make_server: MakeServer) -> None:
    server = make_server()
    with server.connect() as client:
        create_topic(client, "t", 1, _SMALL_SEGMENTS)
    failures: list[str] = []
    delivered: list[int] = []
    producer = Producer(
        {
            "bootstrap.servers": server.address,
            "enable.idempotence": True,
            "retry.backoff.ms": 50,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "message.timeout.ms": 60_000,
            "linger.ms": 1,
            "log_level": 0,
        }
    )

    def on_delivery(error: object, message: object) -> None:
        failures.append(str(error)) if error else delivered.append(message.offset())  # type: ignore[attr-defined]

    sent = 0
    for target in (2000, 4000, 6000):

        def goes_on(target: int = target) -> bool:
            nonlocal sent
            for _ in range(100):
                producer.produce("t", b"%d" % sent, partition=0, on_delivery=on_delivery)
                sent += 1
            producer.poll(0.01)
            return len(delivered) >= target

        wait_until(goes_on, f"{target} deliveries")
        _kill_and_restart(server)
    assert producer.flush(60) == 0
    assert not failures
    with server.connect() as client:
        assert _numbers(read_all(client, "t")) == list(range(sent))


@pytest.mark.deep
def test_clean_restart_under_load(make_server: MakeServer) -> None:
    """SIGTERM ends it well while clients write, and they continue with the next server."""
    server = make_server()
    with server.connect() as client:
        create_topic(client, "t", 1, _SMALL_SEGMENTS)
    producer = IdempotentProducer(server.port, "t", 0)
    producer.start()
    for _ in range(3):
        enough = producer.count + 200
        wait_until(lambda enough=enough: producer.count >= enough, "progress")  # type: ignore[misc]
        server.restart()
    producer.finish()
    with server.connect() as client:
        assert _numbers(read_all(client, "t")) == list(range(producer.count))
