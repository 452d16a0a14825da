"""Recovery with the kernel and without: the same log, whatever lies in the file."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pytest

from drumlin.config.topic import LogConfig
from drumlin.records.batch.batch import assign_offsets
from drumlin.records.kernels import record_kernels
from drumlin.storage.recovery import segment_recovery
from records.conftest import without_kernels
from rig.depth import seeds
from storage.samples import NOW_MS, batch_of, create, marker, open_logs

LOG = "00000000000000000000.log"


@pytest.fixture(scope="module", autouse=True)
def loaded_kernels() -> None:
    assert record_kernels.loaded is not None


def random_batch(random: Random, epoch: int, many_producers: bool) -> bytearray:
    """A batch of any kind, small as a rule."""
    count = random.randint(1, 3)
    size = random.choice((0, 1, 7, 30, 30, 30, 300, 20_000))
    fields: dict[str, Any] = {
        "timestamp": NOW_MS + random.randrange(1000),
        "value": random.randbytes(size),
        "compression": random.choice(("none", "none", "gzip")),
        "leader_epoch": epoch,
    }
    producer_id = random.randrange(200 if many_producers else 4)
    kind = random.random()
    if kind < 0.5:
        fields |= {
            "producer_id": producer_id,
            "producer_epoch": random.choice((0, 0, 0, 0, 1)),
            "base_sequence": random.randrange(100),
            "is_transactional": kind < 0.05,
        }
    elif kind < 0.55:
        return bytearray(marker(commit=random.random() < 0.5, producer_id=producer_id))
    return batch_of(count, **fields)


def random_log(random: Random) -> bytes:
    content = bytearray()
    offset, epoch = 0, 0
    many_producers = random.random() < 0.5
    for _ in range(random.choice((5, 60, 250))):
        if random.random() < 0.02:
            epoch += random.randint(1, 3)
        offset += random.choice((0,) * 20 + (1, 5))  # something was cleaned away
        batch = random_batch(random, epoch, many_producers)
        assign_offsets(batch, 0, offset, epoch if random.random() < 0.98 else 0)
        offset += 1 + int.from_bytes(batch[23:27], "big")
        content += batch
    return bytes(content)


def damaged(random: Random, content: bytes) -> bytes:
    kind = random.randrange(5)
    at = random.randrange(len(content))
    if kind == 0:
        return content[:at]
    if kind == 1:
        return content[:at] + bytes([random.randrange(256)]) + content[at + 1 :]
    if kind == 2:
        return content + random.randbytes(random.randrange(200))
    if kind == 3:
        return content[:at] + bytes(random.randrange(5000))
    return content


def recovered(path: Path, config: LogConfig) -> dict[str, Any]:
    """Everything that recovery finds out and leaves."""
    logs = open_logs(path, config=config)
    log = logs.get("t", 0)
    if log is None:  # its first batch seems to be of an old format
        logs.abandon()
        return {}
    state, active = log.producer_state, log.segments.active
    found = {
        "end": (log.log_end_offset, log.size_bytes, log.recovery_point),
        "epochs": log.leader_epochs.entries,
        "producers": [
            (
                each.producer_id,
                each.producer_epoch,
                each.coordinator_epoch,
                each.last_timestamp,
                each.transaction_first_offset,
                list(each.batches),
            )
            for each in state.freeze().entries()
        ],
        "state": (state.end_offset, state.first_undecided_offset),
        "timestamps": (active.largest_timestamp, active.index_progress),
    }
    logs.abandon()
    files = {each.name: each.read_bytes() for each in (path / "t-0").glob("*")}
    return found | {"files": files}


@pytest.mark.parametrize("seed", seeds(20, 60))
def test_both_ways_find_the_same(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    config = LogConfig(index_interval_bytes=random.choice((0, 100, 4096)))
    logs = open_logs(tmp_path / "plain", config=config)
    create(logs, config)
    logs.abandon()
    content = damaged(random, random_log(random))
    (tmp_path / "plain" / "t-0" / LOG).write_bytes(content)
    shutil.copytree(tmp_path / "plain", tmp_path / "fast")
    with mock.patch.object(segment_recovery, "_STEP_BYTES", random.choice((100, 3000, 1 << 20))):
        with without_kernels():
            plain = recovered(tmp_path / "plain", config)
        assert recovered(tmp_path / "fast", config) == plain


def test_more_producers_and_entries_than_the_kernel_has_room_for(tmp_path: Path) -> None:
    config = LogConfig(index_interval_bytes=0)
    logs = open_logs(tmp_path / "plain", config=config)
    create(logs, config)
    logs.abandon()
    content = bytearray()
    for offset in range(3000):
        batch = batch_of(1, producer_id=offset % 150, producer_epoch=0, base_sequence=offset // 150)
        assign_offsets(batch, 0, offset, 0)
        content += batch
    (tmp_path / "plain" / "t-0" / LOG).write_bytes(content)
    shutil.copytree(tmp_path / "plain", tmp_path / "fast")
    with without_kernels():
        plain = recovered(tmp_path / "plain", config)
    assert plain["end"][0] == 3000
    assert recovered(tmp_path / "fast", config) == plain


@pytest.mark.parametrize("with_kernels", [True, False])
@pytest.mark.parametrize("base_offset", [0, 4])
def test_a_last_batch_whose_offsets_go_back_is_cut(
    tmp_path: Path, base_offset: int, with_kernels: bool
) -> None:
    """No CRC covers them."""
    logs = open_logs(tmp_path)
    create(logs)
    logs.abandon()
    content = bytearray()
    for offset in (0, 3, base_offset):
        batch = batch_of(3)
        assign_offsets(batch, 0, offset, 0)
        content += batch
    (tmp_path / "t-0" / LOG).write_bytes(content)
    with nullcontext() if with_kernels else without_kernels():
        found = recovered(tmp_path, LogConfig())
    assert found["end"] == (6, len(content) // 3 * 2, 0)
