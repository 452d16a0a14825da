"""Large requests are received into memory that was used before."""

from __future__ import annotations

import contextlib
import ctypes
from pathlib import Path

import pytest

from rig.brokers.drumlin_server import DrumlinServer
from rig.data.batches import batch
from rig.data.raw import RawClient
from rig.waiting import wait_until

_RECORD_BYTES = 900_000
_PAGE_BYTES = 4096
_AT_A_TIME = 5


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="another C library")
def test_a_large_request_needs_no_new_pages(tmp_path: Path) -> None:
    server, data = DrumlinServer(tmp_path), batch(bytes(_RECORD_BYTES))
    with contextlib.closing(server):
        server.start()
        with server.connect() as client:
            topic = {"name": "t", "num_partitions": 1, "replication_factor": 1, "configs": []}
            client.ask("create_topics", 7, timeout=10_000, topics=[topic])
            wait_until(lambda: _produce(client, data, 1), "the topic to be led")
            _produce(client, data, 20)
            before, count = _page_faults(server.pid), 40
            assert _produce(client, data, count)
            faults = _page_faults(server.pid) - before
        server.stop()
    assert faults < count * _RECORD_BYTES / _PAGE_BYTES / 10


def _produce(client: RawClient, data: bytes, count: int) -> bool:
    """Send that many, some at a time; whether all of them were appended."""
    partitions = [{"index": 0, "records": data}]
    topics = [{"name": "t", "partition_data": partitions}]
    codes = []
    for number in range(count + _AT_A_TIME):
        if number < count:
            client.send("produce", 9, acks=1, timeout=10_000, topic_data=topics)
        if number >= _AT_A_TIME:
            answer = client.receive("produce", 9)
            codes.append(answer.responses[0].partition_responses[0].error_code)
    return not any(codes)


def _page_faults(pid: int) -> int:
    """How often the process has touched a page that it did not have."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[7])
