"""A producer that never gives up: what is not acknowledged is sent again with its sequence."""

from __future__ import annotations

import threading
from typing import NamedTuple

from crash.requests import produce
from drumlin.wire.error_codes import ErrorCode
from rig.data.batches import Batch, Rec
from rig.data.raw import Closed, NoAnswer, RawClient

_BATCH_RECORDS = 20
_PADDING = b"." * 1000
_COME_BACK = (
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.not_leader_or_follower,
    ErrorCode.kafka_storage_error,
)


class Acknowledged(NamedTuple):
    """A batch that the broker has said is written."""

    base_offset: int
    first_number: int


class IdempotentProducer(threading.Thread):
    """Writes 0, 1, 2, ... in batches to one partition, until it is told to finish."""

    def __init__(self, port: int, topic: str, partition: int) -> None:
        super().__init__(daemon=True)
        self.acknowledged: list[Acknowledged] = []
        self.failure: str | None = None
        self._port = port
        self._topic = topic
        self._partition = partition
        self._producer_id = -1
        self._finish = threading.Event()

    @property
    def count(self) -> int:
        """How many records are acknowledged."""
        return len(self.acknowledged) * _BATCH_RECORDS

    def finish(self) -> None:
        """Let the batch that is under way be acknowledged, and end."""
        self._finish.set()
        self.join(30)
        assert self.failure is None, self.failure
        assert not self.is_alive(), "the producer did not get through"

    def run(self) -> None:
        while not self._is_done():
            try:
                with RawClient(self._port, timeout_s=10) as client:
                    self._produce(client)
            except (OSError, Closed, NoAnswer):
                self._finish.wait(0.02)  # the broker is down: try again until it is back

    def _is_done(self) -> bool:
        return self.failure is not None or (self._finish.is_set() and bool(self.acknowledged))

    def _produce(self, client: RawClient) -> None:
        while self._producer_id < 0:
            answer = client.ask("init_producer_id", 4, transactional_id=None, producer_id=-1)
            if answer.error_code == ErrorCode.none:
                self._producer_id = answer.producer_id
        while not self._is_done():
            first = self.count
            answer = produce(client, self._topic, self._batch(first), self._partition)
            if answer.error_code == ErrorCode.none:
                self.acknowledged.append(Acknowledged(answer.base_offset, first))
            elif answer.error_code not in _COME_BACK:
                self.failure = f"batch at {first}: {answer}"

    def _batch(self, first: int) -> bytes:
        values = [b"%d" % number for number in range(first, first + _BATCH_RECORDS)]
        return Batch(
            tuple(Rec(value + _PADDING) for value in values),
            producer_id=self._producer_id,
            producer_epoch=0,
            base_sequence=first,
        ).encode()
