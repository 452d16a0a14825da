"""A state in a folder is there after a restart; what is not of this log is loaded again.

A state that is larger than the memory of its process is restored, and goes on.
"""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import drumlin
from drumlin.client.client import Client
from drumlin.state import Processor, StateRefused
from drumlin.state.changelog_format import changelog_name
from drumlin.state.disk_store import DiskStore
from drumlin.state.keyed_state import JournaledState
from state.counting import check, count

Made = Callable[..., Processor]
_VALUE_BYTES = 4_000
_KEYS = 100_000
#: Less than these have, for all that is on its way.
_MEMORY_BYTES = 350 << 20
_TESTS = Path(__file__).parents[1]
_PROGRAM = "import sys; from state.test_disk import keep; keep(*sys.argv[1:])"


class Counting:
    """Counts in runs of a processor with a folder; and now and then without it."""

    def __init__(self, client: Client, topic: str, group: str, made: Made, folder: Path) -> None:
        self.client, self.topic, self.group, self.made = client, topic, group, made
        self.output = f"{topic}-output"
        self.changelog = changelog_name(group, "counts")
        self.folder = folder
        self.wanted: Counter[bytes] = Counter()
        client.create_topic(self.output, 1)

    def run(self, keys: str, *, on_disk: bool = True, expected: int | None = None) -> None:
        """Count these letters, all in partition 0, and what is left of earlier ones."""
        expected = expected or len(keys)
        rows = [{"key": each, "value": "x", "partition": 0} for each in keys]
        self.client.append(rows, self.topic, partition="partition")
        self.wanted.update(each.encode() for each in keys)
        folder = self.folder if on_disk else None
        with self.made(folder=folder, idle_timeout_ms=30_000) as processor:
            assert count(processor, self.output, until=expected) == expected
        check(self.client, self.topic, self.output, self.group, self.wanted)
        if on_disk:
            assert dict(self.store().scan(b"")) == {
                key: b"%d" % times for key, times in self.wanted.items()
            }

    @property
    def file(self) -> Path:
        return self.folder / self.changelog / "0.sqlite"

    def store(self) -> DiskStore:
        return DiskStore(self.file)


@pytest.fixture
def counting(client: Client, topic: str, group: str, made: Made, tmp_path: Path) -> Counting:
    return Counting(client, topic, group, made, tmp_path)


def test_only_what_is_new_is_read(counting: Counting, loaded: list[int]) -> None:
    counting.run("abca")
    assert sorted(loaded) == [0, 1]
    loaded.clear()
    counting.run("ad")
    counting.run("bd", on_disk=False)
    assert sorted(loaded) == [0, 1]  # by the one without a folder
    loaded.clear()
    counting.run("abd")
    assert loaded == []


def test_a_store_that_lacks_a_commit_gets_it(
    counting: Counting, loaded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the process was killed between the commit in the log and the one on disk."""
    counting.run("ab")

    def killed(*args: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(JournaledState, "commit", killed)
        counting.run("abb")
    loaded.clear()
    counting.run("c")
    assert loaded == []


def test_a_load_that_is_killed_begins_anew(
    counting: Counting, loaded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a state of several batches, when the first is on disk."""
    counting.run("abc", on_disk=False)
    apply = DiskStore.apply

    def killed(store: DiskStore, *args: Any) -> None:
        apply(store, *args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(DiskStore, "apply", killed)
        counting.run("a")
    loaded.clear()
    counting.run("b", expected=2)
    assert sorted(loaded) == [0, 1]


def spoiled(file: Path, change: str) -> None:
    database = sqlite3.connect(file)
    with database:
        database.execute("UPDATE row SET value = '1000'")
        database.execute(f"UPDATE checkpoint SET {change}")
    database.close()


@pytest.mark.parametrize(
    "change",
    [
        "offset = offset + 100",  # ahead of the log, whose end is lost
        "last_digest = x'00'",  # of a log that was cut, and has grown anew
        "topic_id = 'another'",
        "since_ms = since_ms - 2 * 24 * 3600 * 1000, offset = offset - 2",  # tombstones are gone
        "since_ms = since_ms + 3600 * 1000, offset = offset - 2",  # the clock was set back
    ],
)
def test_a_store_of_another_log_is_loaded_again(
    counting: Counting, loaded: list[int], change: str
) -> None:
    counting.run("aab")
    spoiled(counting.file, change)
    loaded.clear()
    counting.run("ab")
    assert loaded == [0]


@pytest.mark.parametrize("spoil", ["cut", "overwritten", "unfinished"])
def test_a_damaged_file_is_made_again(counting: Counting, loaded: list[int], spoil: str) -> None:
    counting.run("aab")
    file = counting.file
    if spoil == "cut":
        file.write_bytes(file.read_bytes()[:4096])
    elif spoil == "overwritten":
        file.write_bytes(b"no database" * 1000)
    else:
        store = counting.store()
        store.apply({b"never": b"1"}, None)
        store.close()
    loaded.clear()
    counting.run("ab")
    assert loaded == [0]


def test_a_folder_has_one_user(counting: Counting) -> None:
    with (
        counting.made(folder=counting.folder),
        pytest.raises(StateRefused, match="is used by another process"),
    ):
        counting.made(folder=counting.folder)


def _resident_bytes(name: str) -> int:
    """As the system has it: now (VmRSS), or at most (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (found,) = (line.split()[1] for line in lines if line.startswith(f"{name}:"))
    return int(found) << 10


def keep(bootstrap: str, topic: str, group: str, folder: str) -> None:
    """In a process: keep the values of a topic, and print how many, and what memory that took."""
    count = 0
    with drumlin.state.processor(
        topic,
        group=group,
        state="kept",
        bootstrap=bootstrap,
        folder=folder,
        idle_timeout_ms=2_000,
    ) as processor:
        before = _resident_bytes("VmRSS")
        for batch in processor:
            processor.state.update_many(batch["key"], batch["value"])
            count += batch.num_rows
    print(count, _resident_bytes("VmHWM") - before)


@pytest.mark.deep
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere, memory is told in other ways")
@pytest.mark.timeout(1200)
def test_a_state_larger_than_memory(
    client: Client, topic: str, group: str, address: str, tmp_path: Path
) -> None:
    chance, model = random.Random(1), dict[bytes, bytes]()

    def write(numbers: range) -> None:
        for first in range(0, len(numbers), 5_000):
            rows = {b"%d" % n: chance.randbytes(_VALUE_BYTES) for n in numbers[first:][:5_000]}
            table = pa.table({"key": list(rows), "value": list(rows.values())})
            client.append(table, topic, partition=lambda data, _: [0] * len(data))
            model.update(rows)

    def kept(folder: str) -> int:
        command = [sys.executable, "-c", _PROGRAM, address, topic, group, str(tmp_path / folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=_TESTS)
        assert done.returncode == 0, done.stderr[-4000:]
        count, grown_bytes = map(int, done.stdout.split())
        assert grown_bytes < _MEMORY_BYTES, f"{folder}: {grown_bytes >> 20} MB"
        return count

    write(range(_KEYS))
    assert kept("first") == _KEYS
    write(range(0, _KEYS, 100))  # so that keys come again in the changelog
    assert kept("first") == _KEYS // 100
    write(range(7))
    assert kept("second") == 7
    store = DiskStore(tmp_path / "second" / changelog_name(group, "kept") / "0.sqlite")
    assert dict(store.scan(b"")) == model
    store.close()
