"""A batch's base offset is covered by no CRC: when it is damaged, nothing may get lost by it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from drumlin.clock import ManualClock
from drumlin.compaction.failures import CleaningFailed
from drumlin.compaction.round.cleaner import Cleaner
from drumlin.compaction.settings import CleanerSettings
from drumlin.compaction.throttle import Throttle
from drumlin.config.topic import LogConfig
from drumlin.records.batch.batch import iterate_headers, parse_header
from drumlin.records.plain.record import Record, decode_batch, encode_batch
from drumlin.records.validation.validation import PreparedBatch
from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.storage.log.partition_log import PartitionLog
from rig.depth import so_many
from storage.samples import NOW_MS, create, open_sole_logs

_CONFIG = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=400)
_BITS = (0, 1, 2, 3, 5, 8, 20, 33, 62)[:: so_many(2, 1)]


def _filled(path: Path, codec: str) -> tuple[LogDirectories, PartitionLog]:
    logs = open_sole_logs(path, config=_CONFIG, clock=ManualClock(NOW_MS))
    log = create(logs, _CONFIG)
    for number in range(12):
        batch = encode_batch(
            [Record(i, NOW_MS, b"%d-%d" % (number, i), b"value") for i in range(3)],
            compression=codec,
        )
        log.append_as_leader(PreparedBatch(memoryview(batch), parse_header(batch)), 0, NOW_MS)
    log.roll(NOW_MS)
    return logs, log


def _clean(logs: LogDirectories, log: PartitionLog) -> None:
    stopping, settings = threading.Event(), CleanerSettings()
    throttle = Throttle(settings.io_max_bytes_per_second, ManualClock(), stopping)
    clock = ManualClock(NOW_MS)
    cleaner = Cleaner(settings, throttle, lambda function: function(), clock, stopping)
    cleaner.clean(log, logs.swap_segments)


def _keys(log: PartitionLog) -> list[bytes | None]:
    found = []
    for segment in log.segments:
        content = Path(segment.log_file.path).read_bytes()
        for position, header in iterate_headers(content):
            found += [r.key for r in decode_batch(content[position : position + header.size])]
    return found


@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize("cleanings_before", [0, 1])
def test_no_record_goes(tmp_path: Path, codec: str, cleanings_before: int) -> None:
    folder = tmp_path / "first"
    folder.mkdir()
    logs, log = _filled(folder, codec)
    places = [
        (number, position)
        for number, segment in enumerate(log.segments.snapshot()[:-1])
        for position, _ in iterate_headers(Path(segment.log_file.path).read_bytes())
    ]
    logs.abandon()
    assert places
    for number, position in places:
        for bit in _BITS:
            folder = tmp_path / f"{number}-{position}-{bit}"
            folder.mkdir()
            logs, log = _filled(folder, codec)
            before = _keys(log)
            path = Path(log.segments.snapshot()[number].log_file.path)
            content = bytearray(path.read_bytes())
            content[position + 7 - bit // 8] ^= 1 << bit % 8
            path.write_bytes(content)
            if cleanings_before:  # as if what is damaged had been cleaned, and read in pass 2 only
                clean_up_to = log.segments.snapshot()[-2].base_offset
                log.log_directory.cleaner_offsets.set(("t", 0), clean_up_to, only_if=lambda: True)
            try:
                _clean(logs, log)
            except CleaningFailed as error:
                assert str(path) in str(error)
            assert _keys(log) == before
            logs.abandon()


def test_a_garbled_batch_is_not_written_anew(tmp_path: Path) -> None:
    """With a right checksum nobody would find it any more."""
    logs, log = _filled(tmp_path, "lz4")
    path = Path(log.segments.first.log_file.path)
    content = bytearray(path.read_bytes())
    place = content.index(b"value")
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(CleaningFailed, match="CRC"):
        _clean(logs, log)
    assert path.read_bytes() == content
    logs.abandon()
