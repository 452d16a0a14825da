"""A log is cleaned on a disk with two free segments, and a producer beside it notices nothing."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

from crash.conftest import MakeServer
from crash.requests import create_topic, produce
from drumlin.wire.error_codes import ErrorCode
from rig.data.batches import Batch, Rec, batch
from rig.data.compacted_topic import alter, await_clean, read
from rig.data.raw import RawClient

_SEGMENT = 1 << 20
_VALUE = b"v" * 1000


class Producer(threading.Thread):
    """Writes small batches to a topic of its own until told to finish."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.codes: list[int] = []
        self._port = port
        self._finish = threading.Event()

    def finish(self) -> list[int]:
        self._finish.set()
        self.join(30)
        assert not self.is_alive()
        return self.codes

    def run(self) -> None:
        with RawClient(self._port, timeout_s=30) as client:
            while not self._finish.wait(0.01):
                self.codes.append(produce(client, "live", batch(_VALUE)).error_code)


def test_two_free_segments_and_a_producer(small_disk: Path, make_server: MakeServer) -> None:
    settings = {"log.dirs": str(small_disk / "data"), "log.cleaner.backoff.ms": "50"}
    server = make_server(settings)
    segments = {"internal.segment.bytes": str(_SEGMENT), "min.cleanable.dirty.ratio": "0.01"}
    with server.connect() as client:
        create_topic(client, "t", 1, {"cleanup.policy": "delete", **segments})
        create_topic(client, "live", 1, {"internal.segment.bytes": str(8 * _SEGMENT)})
        for number in range(120):
            keys = [b"same", *(b"%d %d" % (number, place) for place in range(99))]
            data = Batch(tuple(Rec(_VALUE, key) for key in keys)).encode()
            assert produce(client, "t", data).error_code == ErrorCode.none
    free_bytes = shutil.disk_usage(small_disk).free
    (small_disk / "ballast").write_bytes(bytes(free_bytes - 2 * _SEGMENT))
    producer = Producer(server.port)
    producer.start()
    alter(server.address, "t", {"cleanup.policy": "compact"})
    done = await_clean(small_disk / "data", "t")["last_cleaning"]
    codes = producer.finish()
    assert codes
    assert set(codes) == {ErrorCode.none}
    assert done["segments_before"] > 9
    assert done["records_removed"] > 90
    offsets = [offset for offset, _, _ in read(server.address, "t")]
    assert len(offsets) == 120 * 100 - done["records_removed"]
