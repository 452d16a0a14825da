"""A producer without transactions: idempotent, and each record acknowledged by all of the ISR."""

from __future__ import annotations

import random
import threading
import time

from confluent_kafka import KafkaError, Message, Producer

from guarantees.histories.history import Outcome, Recorder
from guarantees.torture.records import encode, next_value, partition_name

_IN_FLIGHT_MAX = 200
_END_WELL_S = 60.0


class PlainWriter(threading.Thread):
    """Records one by one, until it is told to stop; then all of them must get through.

    A record counts as a transaction by itself, which is asked to be committed as it is sent. It is
    tried for longer than a run lasts, so none of them may fail.
    """

    def __init__(
        self,
        name: str,
        bootstrap: str,
        partitions: list[tuple[str, int]],
        recorder: Recorder,
        seed: str,
    ) -> None:
        super().__init__(daemon=True, name=name)
        self.failure: BaseException | None = None
        self._partitions = partitions
        self._recorder = recorder
        self._random = random.Random(f"{seed} {name}")
        self._stopping = threading.Event()
        self._number = 0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                # With more librdkafka (2.16) sends again, in a new epoch, what other partitions may
                # have, if a broker refuses one batch and takes the next for out of order.
                "max.in.flight.requests.per.connection": 1,
                "message.timeout.ms": 600_000,
                "socket.timeout.ms": self._random.choice((2000, 10_000)),
                "linger.ms": self._random.choice((0, 5, 50)),
                "reconnect.backoff.max.ms": 500,
                "batch.num.messages": self._random.choice((3, 10_000)),
                "compression.type": self._random.choice(("none", "lz4")),
                "topic.metadata.refresh.interval.ms": 5000,
                "log_level": 0,
            }
        )

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                for _ in range(self._random.randint(1, 30)):
                    self._send()
                self._producer.poll(0)
                self._stopping.wait(self._random.choice((0, 0.02, 0.2)))
                while len(self._producer) > _IN_FLIGHT_MAX and not self._stopping.is_set():
                    self._producer.poll(0.1)
            deadline = time.monotonic() + _END_WELL_S
            while self._producer.flush(1) and time.monotonic() < deadline:
                pass
            if len(self._producer):
                raise TimeoutError(f"{len(self._producer)} records are not acknowledged")
        except BaseException as failure:
            self.failure = failure

    def _send(self) -> None:
        self._number += 1
        number, value = self._number, next_value()
        topic, partition = self._random.choice(self._partitions)
        self._recorder.begin(self.name, number)
        self._recorder.write(self.name, number, partition_name(topic, partition), value)
        self._recorder.commit(self.name, number)

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.failure = self.failure or RuntimeError(f"{value} is refused: {error}")
                return
            offset = message.offset()
            if offset is not None:  # else it follows from the ack of what was sent after it
                self._recorder.ack(self.name, value, offset)
            self._recorder.end(self.name, number, Outcome.COMMITTED)

        content = encode(value, self._random)
        self._producer.produce(
            topic, content, str(value), partition=partition, on_delivery=delivered
        )
