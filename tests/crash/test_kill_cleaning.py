"""`kill -9` in the midst of cleanings, many times: the last value of every key is there."""

from __future__ import annotations

import random
import threading
import time

import pytest

from crash.conftest import MakeServer
from crash.requests import create_topic, produce
from drumlin.wire.error_codes import ErrorCode
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.batches import Batch, Rec
from rig.data.compacted_topic import CLEANED_S, read, status
from rig.data.raw import Closed, NoAnswer, RawClient
from rig.depth import seeds, so_many
from rig.waiting import wait_until

_KILLS = so_many(2, 10)
_KEYS = 40
_CLEANING = {
    "log.cleaner.backoff.ms": "5",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.flush.scheduler.interval.ms": "50",
}
_COMPACTED = {"cleanup.policy": "compact", "internal.segment.bytes": "200000"}
_TRACES = ("*.cleaned", "*.swap", "segment-swap*")


class Writer(threading.Thread):
    """Writes to its own keys, each batch again and again until it is acknowledged."""

    def __init__(self, port: int, number: int) -> None:
        super().__init__(daemon=True)
        self.last: dict[bytes, bytes] = {}
        self.count = 0
        self.failure: str | None = None
        self._port = port
        self._number = number
        self._chance = random.Random(number)
        self._finish = threading.Event()

    def finish(self) -> None:
        self._finish.set()
        self.join(30)
        assert self.failure is None, self.failure
        assert not self.is_alive(), "a producer did not get through"

    def run(self) -> None:
        while not self._finish.is_set() and self.failure is None:
            values = {self._key(): b"%d-" % self.count + b"." * 200 for _ in range(20)}
            self._write(values)
            self.last |= values
            self.count += 1

    def _key(self) -> bytes:
        return b"%d/%d" % (self._number, self._chance.randrange(_KEYS))

    def _write(self, values: dict[bytes, bytes]) -> None:
        data = Batch(tuple(Rec(value, key) for key, value in values.items())).encode()
        while True:
            try:
                with RawClient(self._port, timeout_s=10) as client:
                    answer = produce(client, "t", data)
            except (OSError, Closed, NoAnswer):
                time.sleep(0.02)  # the broker is down
                continue
            if answer.error_code == ErrorCode.none:
                return
            assert answer.error_code in (
                ErrorCode.unknown_topic_or_partition,
                ErrorCode.not_leader_or_follower,
            ), answer


def _is_clean(server: DrumlinServer) -> bool:
    row = status(server.data, "t")
    return row is not None and row["head_bytes"] == 0


@pytest.mark.parametrize("seed", seeds(1, 10))
def test_last_values_through_kills(make_server: MakeServer, seed: int) -> None:
    server = make_server(_CLEANING)
    with server.connect() as client:
        create_topic(client, "t", 1, _COMPACTED)
    writers = [Writer(server.port, number) for number in range(3)]
    for writer in writers:
        writer.start()
    folder = server.data / "t-0"

    def is_cleaning() -> bool:
        assert all(writer.is_alive() for writer in writers)
        return any(  # looked at often: a small cleaning is done in milliseconds
            next(folder.glob(trace), None) for _ in range(50) for trace in _TRACES
        )

    chance = random.Random(7 + seed)
    for _ in range(_KILLS):
        counts = [writer.count + 20 for writer in writers]
        wait_until(
            lambda counts=counts: [w.count for w in writers] >= counts, "progress of producers"
        )
        wait_until(is_cleaning, "a cleaning", 180)
        time.sleep(chance.random() * 0.02)  # any moment of it will do
        server.kill()
        server.start()
    for writer in writers:
        writer.finish()
    expected = {key: value for writer in writers for key, value in writer.last.items()}
    for _ in range(2):
        found = read(server.address, "t")
        offsets = [offset for offset, _, _ in found]
        assert offsets == sorted(set(offsets))
        assert {key: value for _, key, value in found} == expected
        wait_until(lambda: _is_clean(server), "all to be clean", CLEANED_S)
        server.restart()
    assert not any(next(folder.glob(trace), None) for trace in _TRACES)
