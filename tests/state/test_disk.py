"""A state in a folder is there after a restart; what is not of this log is loaded again."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drumlin.client.client import Client
from drumlin.state import Processor, StateRefused
from drumlin.state.changelog_format import changelog_name
from drumlin.state.disk_store import DiskStore
from drumlin.state.keyed_state import JournaledState
from state.counting import check, count

Made = Callable[..., Processor]


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
