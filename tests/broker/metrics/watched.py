"""A server whose metrics are watched while clients use it."""

from __future__ import annotations

from contextlib import closing

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from rig.brokers.drumlin_server import DrumlinServer
from rig.brokers.prometheus import scrape

VALUE = bytes(100)


class Watched:
    """A server, and its metrics."""

    def __init__(self, server: DrumlinServer, port: int) -> None:
        self.server, self.port = server, port
        self.admin = AdminClient({"bootstrap.servers": server.address})

    def now(self) -> dict[str, float]:
        return scrape(self.port)

    def create(
        self, *topics: str, partitions: int = 1, config: dict[str, str] | None = None
    ) -> None:
        new = [NewTopic(each, partitions, 1, config=config or {}) for each in topics]
        for done in self.admin.create_topics(new).values():
            done.result(30)

    def produce(self, topic: str, records: int) -> None:
        producer = Producer({"bootstrap.servers": self.server.address, "acks": "1"})
        for number in range(records):
            producer.produce(topic, VALUE, str(number), 0)
        assert producer.flush(30) == 0

    def read(self, topic: str, records: int) -> None:
        settings = {"bootstrap.servers": self.server.address, "group.id": "reads"}
        with closing(Consumer(settings)) as consumer:
            consumer.assign([TopicPartition(topic, 0, 0)])
            found = 0
            while found < records:
                message = consumer.poll(20)
                assert message is not None and not message.error()
                found += 1
