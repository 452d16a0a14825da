"""Brokers, and the server with all of them, are killed again and again while clients write."""

from __future__ import annotations

import random
import threading

import pytest
from confluent_kafka import Producer

from machine.clients import committed, create, read, transact
from machine.conftest import MakeServer
from rig.brokers.machine_server import MachineServer, await_end
from rig.depth import seeds, so_many
from rig.waiting import wait_until

pytestmark = [pytest.mark.clients, pytest.mark.slow]

_KILLS = so_many(2, 12)
_TOPICS = {"single": 1, "replicated": 2}


class Writer(threading.Thread):
    """Writes numbers to a topic, as an idempotent producer does, until it is told to stop."""

    def __init__(self, server: MachineServer, topic: str) -> None:
        super().__init__(daemon=True)
        self.topic = topic
        self.acknowledged: list[str] = []
        self.failures: list[str] = []
        self._is_over = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": server.addresses,
                "enable.idempotence": True,
                "linger.ms": 5,
                "retry.backoff.ms": 50,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "message.timeout.ms": 120_000,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        number = 0
        while not self._is_over.wait(0.002):
            for _ in range(5):
                value = str(number)
                self._producer.produce(self.topic, value, key=value, on_delivery=self._note)
                number += 1
            self._producer.poll(0)

    def finish(self) -> None:
        self._is_over.set()
        self.join()
        assert self._producer.flush(120) == 0
        assert not self.failures

    def _note(self, error: object, message: object) -> None:
        if error:
            self.failures.append(str(error))
        else:
            self.acknowledged.append(message.value().decode())  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", seeds(1, 5))
def test_nothing_that_was_acknowledged_is_lost_or_doubled(
    make_server: MakeServer, seed: int
) -> None:
    server = make_server()
    server.start_brokers(3)
    for topic, replicas in _TOPICS.items():
        create(server, topic, 6, replicas)
    chance = random.Random(4711 + seed)
    writers = [Writer(server, topic) for topic in _TOPICS]
    for writer in writers:
        writer.start()
    for number in range(_KILLS):
        enough = [len(each.acknowledged) + chance.randint(20, 400) for each in writers]

        def have_enough(enough: list[int] = enough) -> bool:
            return all(len(w.acknowledged) >= e for w, e in zip(writers, enough, strict=True))

        wait_until(have_enough, f"progress before kill {number}", 90)
        if number % 4 == 3:
            workers = server.workers()
            server.kill()
            await_end(workers)
            server.start_brokers(3)
        else:
            server.kill_workers(chance.sample([1, 2, 3], 1 + number % 2))()
        transact(server, "steady", ["single"], [f"transaction {number}"])
    for writer in writers:
        writer.finish()
    for writer in writers:
        expected = list(writer.acknowledged)
        if writer.topic == "single":
            expected += [f"transaction {number}" for number in range(_KILLS)]
        assert sorted(read(server, writer.topic, expected)) == sorted(expected)
    assert committed(server, "readers", "replicated", 6) == len(writers[1].acknowledged)
    server.stop()
