"""A store notices that the end of its changelog was lost, as in an unclean election (KIP-320)."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

import drumlin
from drumlin import lowlevel
from drumlin.state.disk_store import DiskStore
from drumlin.state.stores import MemoryStore, Store
from rig.brokers.drumlin_server import DrumlinServer
from state.test_cleaned_changelogs import Written

_HEAD = struct.Struct(">qi")  # base offset, and the length of what follows


def cut(folder: Path, offset: int) -> None:
    """Remove the batches from `offset` on from a stopped broker's log."""
    for segment in sorted(folder.glob("*.log")):
        if int(segment.stem) >= offset:
            for each in folder.glob(f"{segment.stem}.*"):
                each.unlink()
            continue
        data, at = segment.read_bytes(), 0
        while at < len(data):
            base_offset, size = _HEAD.unpack_from(data, at)
            if base_offset >= offset:
                segment.write_bytes(data[:at])
                break
            at += _HEAD.size + size


@pytest.mark.parametrize("is_loaded", [False, pytest.param(True, marks=pytest.mark.deep)])
def test_a_log_that_is_cut_and_grows_again(tmp_path: Path, is_loaded: bool) -> None:
    """The store's last record is removed by the cleaner, so it does not show the loss."""
    broker = DrumlinServer(tmp_path, {"log.cleaner.backoff.ms": "10"})
    stores: list[Store] = [MemoryStore(), DiskStore(tmp_path / "0.sqlite")]
    try:
        broker.start()
        with drumlin.connect(broker.address) as client:
            written = Written(client, 1, 120_000)
            client.set_topic_configs(written.topic, {"min.compaction.lag.ms": 3_600_000})
            for _ in range(3):
                written.commit()
            if not is_loaded:
                for store in stores:
                    written.follow(store)
            end, kept = client.offsets(written.topic)[0], dict(written.state)
            for _ in range(3):
                written.commit()
            written.write({b"lost": b"1"})
            for store in stores:
                written.follow(store)
                assert dict(store.scan(b"")) == written.state
            (had,) = lowlevel.known_leader_epochs(client, written.topic).values()
        broker.kill()
        cut(broker.data / f"{written.topic}-0", end)
        broker.start()
        with drumlin.connect(broker.address) as client:
            written.client = client
            assert client.offsets(written.topic)[0] == end
            client.set_topic_configs(written.topic, {"min.compaction.lag.ms": 0})
            written.state = kept
            written.changelog._client = client
            for _ in range(6):
                written.commit()
            for _ in range(3):
                written.until_cleaned()
            assert lowlevel.end_of_epoch(client, (written.topic, 0), had) == (had, end)
            last = stores[0].checkpoint.last_offset if stores[0].checkpoint else -1
            assert client.offsets(written.topic)[0] > last
            assert last not in client.read(written.topic)["offset"].to_pylist()
            for store in stores:
                written.take_over(store)
    finally:
        broker.close()
        stores[1].close()


def test_epochs_of_a_log(client: drumlin.Client, topic: str) -> None:
    client.append({"value": ["a"], "partition": [0]}, topic, partition="partition")
    epoch = lowlevel.known_leader_epochs(client, topic)[0]
    assert lowlevel.end_of_epoch(client, (topic, 0), epoch) == (epoch, 1)
    assert lowlevel.end_of_epoch(client, (topic, 0), epoch + 5).leader_epoch in (epoch, -1)
    with pytest.raises(drumlin.UnknownTopic):
        lowlevel.end_of_epoch(client, ("nothing", 0), 0)
    assert lowlevel.known_leader_epochs(client, "nothing") == {}
