"""Cleaned segments take the place of old ones, stopped at every step, with any loss."""

from __future__ import annotations

import functools
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from drumlin.storage.replacement.segment_swap import SegmentSwap
from storage.replacement.swaps import (
    BATCHES,
    CONFIG,
    SEGMENTS,
    SWAPS,
    Content,
    Swap,
    cleaned,
    content,
    fill,
    offsets,
    written,
)
from storage.samples import IN_MEMORY, NOW_MS, append, create, from_producer, open_logs
from storage.unordered_files import Killed, UnorderedFiles, losses

Work = Callable[[Path, UnorderedFiles], None]


def killed_after(
    source: Path, work: Path, steps: int | None, do: Work
) -> tuple[UnorderedFiles, bool]:
    """Do something with a copy of the log dir `source`; stopped after so many operations."""
    root = work / "logs"
    shutil.copytree(source, root)
    files = UnorderedFiles(work / "vault")
    files.begin(root, root / "t-0")
    files.stop_after = steps
    try:
        do(root, files)
    except Killed:
        return files, False
    return files, True


def clean(swap_case: Swap, root: Path, files: UnorderedFiles) -> None:
    steps, files.stop_after = files.stop_after, None
    logs = open_logs(root, config=CONFIG, files=files)
    log = logs.get("t", 0)
    assert log is not None
    log.flush()  # no name is owed from before: the swap sees to its own
    files.done, files.stop_after = 0, steps
    try:
        cleaned(logs, log, swap_case)
    finally:
        files.stop_after = None
        logs.abandon()


def load(root: Path, files: UnorderedFiles) -> None:
    open_logs(root, config=CONFIG, files=files).abandon()


def outcomes_of(source: Path, do: Work, chance: random.Random) -> Iterator[list[Content]]:
    """What a start finds after each step, with this lost or that. The last step is the end."""
    is_done, steps = False, 0
    while not is_done:
        with tempfile.TemporaryDirectory(dir=IN_MEMORY) as work:
            files, is_done = killed_after(source, Path(work), steps, do)
            found = []
            for number, lost in enumerate(losses(files.changes, chance)):
                target = Path(work, str(number))
                files.leave_to(Path(work, "logs"), target, lost)
                found.append(reloaded(target))
            for number in range(2):  # and what was not synced of files
                target = Path(work, f"cut-{number}")
                files.leave_to(Path(work, "logs"), target, (), lambda: chance.random() < 0.5)
                found.append(reloaded(target))
            yield found
        steps += 1


def reloaded(root: Path) -> Content:
    """What a start finds; all is in order then, and the log is usable."""
    logs = open_logs(root, config=CONFIG)
    log = logs.get("t", 0)
    assert log is not None
    found = content(log)
    names = {path.suffix for path in log.directory.iterdir()}
    assert names <= {".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".metadata", ""}
    assert not (log.directory / "segment-swap").exists()
    assert append(log).base_offset == found.end_offset
    producers = {entry.producer_id for entry in log.producer_state.freeze().entries()}
    assert producers == {100 + number for number in range(SEGMENTS)}
    logs.abandon()
    return found


#: The others are shown at every step by what these show: they differ in where segments begin.
_AT_EACH_COMMIT = ("none instead", "an empty one")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in _AT_EACH_COMMIT else pytest.mark.deep)
        for name in SWAPS
    ],
)
def test_a_crash_leaves_the_old_log_or_the_new_one(folder: Path, name: str) -> None:
    """After every step, and whatever is lost of what was not synced yet."""
    swap_case, chance = SWAPS[name], random.Random(name)
    logs = open_logs(folder, config=CONFIG)
    before = content(fill(logs))
    logs.abandon()
    found = list(outcomes_of(folder, functools.partial(clean, swap_case), chance))
    after = found[-1][0]
    assert after != before
    is_over = False
    for step, outcomes in enumerate(found):
        for outcome in outcomes:
            assert outcome in (before, after), f"after step {step}"
        # Once no crash leads to the old log, none does later.
        assert not is_over or before not in outcomes, f"after step {step}"
        is_over = before not in outcomes
    assert found[0] == [before] * len(found[0])
    assert found[-1] == [after] * len(found[-1])


@pytest.mark.parametrize(
    "name",
    [
        "none instead",
        *(
            pytest.param(name, marks=pytest.mark.deep)
            for name in ("four against two", "an empty one")
        ),
    ],
)
@pytest.mark.parametrize("applied", [True, False])
def test_a_start_that_does_not_come_to_its_end(folder: Path, name: str, applied: bool) -> None:
    """It completes a swap, and is stopped at every step of that."""
    chance = random.Random(name)
    logs = open_logs(folder, config=CONFIG)
    log = fill(logs)
    view = log.cleaning_view()
    swap = SegmentSwap(log, view, *written(log, view, SWAPS[name]))
    swap.prepare()
    if applied:
        logs.swap_segments(swap)
    logs.abandon()
    found = list(outcomes_of(folder, load, chance))
    after = found[-1][-1]
    assert all(outcome == after for outcomes in found for outcome in outcomes)


@pytest.mark.deep
def test_a_swap_that_apache_kafka_has_begun(folder: Path) -> None:
    """It has no plan: all that is `.swap` is to take its place, and a start may be stopped too."""
    logs = open_logs(folder, config=CONFIG)
    log = fill(logs)
    written(log, log.cleaning_view(), SWAPS["four against two"])
    logs.abandon()
    for path in (folder / "t-0").glob("*.cleaned"):
        path.rename(path.with_suffix(".swap"))
    found = list(outcomes_of(folder, load, random.Random(0)))
    after = found[-1][-1]
    assert len(after.batches) < len(BATCHES)
    assert all(outcome == after for outcomes in found for outcome in outcomes)


def test_what_was_cleaned_is_not_read_again(folder: Path) -> None:
    """From it, leader epochs and producers could not be told any more."""
    logs = open_logs(folder, config=CONFIG)
    log = create(logs, CONFIG)
    for number in range(20):
        append(log, leader_epoch=number, value=bytes(100))
        log.append_as_leader(from_producer(0, producer_id=number), number, NOW_MS)
        log.roll(NOW_MS)
    producers = [entry.producer_id for entry in log.producer_state.freeze().entries()]
    epochs = log.leader_epochs.entries
    cleaned(logs, log, Swap(range(19), lambda at: at[:1], lambda offset: offset == 36))
    logs.abandon()
    logs = open_logs(folder, config=CONFIG)
    again = logs.get("t", 0)
    assert again is not None
    assert again.leader_epochs.entries == epochs
    assert [entry.producer_id for entry in again.producer_state.freeze().entries()] == producers
    assert offsets(again) == [36, 38, 39]
    logs.abandon()
