"""Clients that do something of everything: what a dashboard shows comes of it."""

from __future__ import annotations

import contextlib
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from rig.brokers.secure_server import SecureServer


class Traffic:
    """Records, a group that lags, a transaction, a compacted topic, and a few errors."""

    def __init__(self, server: SecureServer) -> None:
        self._server = server
        self._login = server.librdkafkas(bootstrap_servers=server.address)
        small, compacted = {"max.message.bytes": "1000"}, {"cleanup.policy": "compact"}
        topics = [
            NewTopic("orders", 2, 1),
            NewTopic("small", 1, 1, config=small),
            NewTopic("accounts", 1, 1, config=compacted),
        ]
        admin = AdminClient(self._login)
        for done in admin.create_topics(topics).values():
            done.result(30)
        self._payments = Producer({**self._login, "transactional.id": "payments"})
        self._payments.init_transactions(30)
        self._member = Consumer({**self._login, "group.id": "billing"})

    def flow(self) -> None:
        """Let some of everything happen."""
        producer = Producer(self._login)
        for number in range(50):
            for topic in ("orders", "accounts"):
                producer.produce(topic, bytes(100), str(number % 5))
        producer.produce("small", bytes(5000))  # which is refused
        producer.flush(30)
        self._payments.begin_transaction()
        self._payments.produce("orders", b"paid")
        self._payments.commit_transaction(30)
        self._read()
        self._member.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
        self._fail_to_log_in()

    def close(self) -> None:
        self._member.close()

    def _read(self) -> None:
        """Read a little, and beyond the end, which is an error."""
        self._member.assign([TopicPartition("orders", 0, 0)])
        message = self._member.poll(20)
        assert message is not None and not message.error()
        self._member.assign([TopicPartition("orders", 1, 10**9)])
        self._member.poll(1)

    def _fail_to_log_in(self) -> None:
        wrong: dict[str, Any] = {**self._login, "sasl.password": "wrong", "log_level": 0}
        with contextlib.suppress(KafkaException):
            AdminClient(wrong).list_topics(timeout=1)
