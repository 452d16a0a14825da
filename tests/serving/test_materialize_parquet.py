"""A topic as Parquet files: each version that a reader finds is the log at some positions."""

from __future__ import annotations

import json
import multiprocessing
import random
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.dataset as ds
import pytest

import drumlin
from drumlin.client.client import Client
from drumlin.serving import targets
from drumlin.serving.parquet import target as parquet_target
from drumlin.serving.parquet.target import ParquetTarget
from drumlin.serving.target import Fenced, Position
from rig.brokers.drumlin_server import DrumlinServer
from rig.waiting import wait_until
from serving import lost_tombstone
from serving.kills import kill_again_and_again
from serving.lost_tombstone import LEFT

AT = Position("id", 5, 0, "then")


def rows(**values: str | None) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in values.items()]


def newest(folder: Path) -> Path:
    return max(folder.glob("[0-9]*"))


def kept(folder: Path) -> dict[Any, Any]:
    table = ds.dataset(newest(folder), format="parquet").to_table()
    found = dict(zip(*(table.column(name).to_pylist() for name in ("key", "value")), strict=True))
    assert len(found) == table.num_rows
    return found


def opened(folder: Path, **options: Any) -> ParquetTarget:
    known = {"is_text": False, "buckets": 4, "every_s": 0, "keep_s": 60}
    return ParquetTarget(folder, "t by g", **known | options)


def test_it_has_the_last_value_of_every_key(client: Client, topic: str, tmp_path: Path) -> None:
    to = f"parquet:///{tmp_path}/lake?buckets=3"
    folder = tmp_path / "lake" / topic

    def keep() -> int:
        done = drumlin.materialize(client, topic, to, group=topic, until_end=True)
        assert done.lag == 0
        return done.records

    client.append(rows(a="1", b="2", c="3"), topic)
    assert keep() == 3
    assert kept(folder) == {b"a": b"1", b"b": b"2", b"c": b"3"}
    before = newest(folder)
    client.append(rows(a="one", b=None, d="4", e=None), topic)
    assert keep() == 4
    expected = {b"a": b"one", b"c": b"3", b"d": b"4"}
    assert kept(folder) == expected
    table = ds.dataset(before, format="parquet").to_table()
    assert sorted(table.column("key").to_pylist()) == [b"a", b"b", b"c"]  # it never changes
    found = duckdb.sql(f"SELECT count(*), count(DISTINCT key) FROM '{newest(folder)}/*.parquet'")
    assert found.fetchall() == [(3, 3)]
    assert keep() == 0
    next(newest(folder).glob("*.parquet")).unlink()
    assert keep() > 0
    assert kept(folder) == expected
    shutil.rmtree(folder)
    assert keep() > 0
    assert kept(folder) == expected
    assert not list((folder / "_aside").iterdir())
    with pytest.raises(drumlin.TargetRefused, match=f"by group '{topic}', not"):
        drumlin.materialize(client, topic, to, group="other", until_end=True)
    with pytest.raises(drumlin.TargetRefused, match="has 3 buckets, not 16"):
        drumlin.materialize(client, topic, to.partition("?")[0], group=topic)


def test_as_text_and_emptied(client: Client, topic: str, tmp_path: Path) -> None:
    to = f"parquet:///{tmp_path}?table=of_{topic}"
    client.append(rows(ä="ö"), topic)
    drumlin.materialize(client, topic, to, group="g", decode="utf8", until_end=True)
    assert kept(tmp_path / f"of_{topic}") == {"ä": "ö"}
    client.append(rows(ä=None), topic)
    drumlin.materialize(client, topic, to, group="g", decode="utf8", until_end=True)
    assert not list(newest(tmp_path / f"of_{topic}").glob("*.parquet"))


def test_changes_are_collected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = opened(tmp_path / "t", every_s=3600)
    terms = [target.claim(each).term for each in range(2)]
    target.apply(0, terms[0], {b"a": b"1", b"b": b"1"}, AT)
    target.apply(0, terms[0], {b"b": None}, AT._replace(offset=6))
    assert (kept_or_none(tmp_path / "t"), target.positions([0])) == ({}, {})
    target.flush(0, terms[0], now=False)
    assert target.positions([0]) == {}
    target.flush(0, terms[0], now=True)
    assert kept(tmp_path / "t") == {b"a": b"1"}
    assert target.positions([0, 1]) == {0: AT._replace(offset=6)}
    version = newest(tmp_path / "t")
    target.flush(0, terms[0], now=True)
    assert newest(tmp_path / "t") == version  # nothing is new
    monkeypatch.setattr(parquet_target, "_COLLECTED_BYTES", 2000)
    target.apply(0, terms[0], {b"large": b"x" * 1500}, AT._replace(offset=7))
    target.apply(1, terms[1], {b"small": b"x" * 500}, AT)
    assert kept(tmp_path / "t").keys() == {b"a", b"large"}
    target.close()


def kept_or_none(folder: Path) -> dict[Any, Any]:
    return kept(folder) if list(newest(folder).glob("*.parquet")) else {}


def test_only_buckets_that_changed_are_written(tmp_path: Path) -> None:
    target = opened(tmp_path / "t", buckets=8)
    term = target.claim(0).term
    target.apply(0, term, {b"%d" % each: b"v" for each in range(100)}, AT)
    before = {each.name for each in newest(tmp_path / "t").glob("*.parquet")}
    target.apply(0, term, {b"7": b"w"}, AT._replace(offset=6))
    after = {each.name: each.stat() for each in newest(tmp_path / "t").glob("*.parquet")}
    assert (len(before), len(before & after.keys())) == (8, 7)
    assert {after[each].st_nlink for each in before & after.keys()} == {2}
    assert kept(tmp_path / "t") == {b"%d" % each: b"v" for each in range(100)} | {b"7": b"w"}
    target.close()


def test_an_old_owner_that_wakes_up_writes_nothing(tmp_path: Path) -> None:
    old, new = opened(tmp_path / "t"), opened(tmp_path / "t")
    assert old.claim(0) == (1, None)
    loading = old.replace(0, 1)
    loading.add([(b"a", b"1")])
    loading.commit(AT)
    loading = old.replace(0, 1)
    loading.add([(b"a", b"old")])
    assert new.claim(0) == (2, AT)
    for write in (
        lambda: loading.commit(AT._replace(offset=9)),
        lambda: old.apply(0, 1, {b"a": b"old"}, AT._replace(offset=9)),
        lambda: old.flush(0, 1, now=True),
        lambda: old.replace(0, 1),
    ):
        with pytest.raises(Fenced, match="partition 0"):
            write()
    assert kept(tmp_path / "t") == {b"a": b"1"}
    new.apply(0, 2, {b"a": None, b"b": b"2"}, AT._replace(offset=7))
    assert kept(tmp_path / "t") == {b"b": b"2"}
    old.close()
    new.close()


def test_versions_and_files_that_somebody_removes(tmp_path: Path) -> None:
    """What is left is not continued as if it were whole."""
    target = opened(tmp_path / "t")
    terms = [target.claim(each).term for each in range(2)]
    for offset in range(5, 7):
        for each in range(2):
            key = b"%d/%d" % (each, offset)
            target.apply(each, terms[each], {key: b"v"}, AT._replace(offset=offset))
    shutil.rmtree(newest(tmp_path / "t"))
    with pytest.raises(Fenced):
        target.apply(1, terms[1], {b"k": b"v"}, AT._replace(offset=7))
    assert target.claim(1).position == AT  # and partition 0 goes on
    target.apply(0, terms[0], {b"0/7": b"v"}, AT._replace(offset=7))
    assert kept(tmp_path / "t").keys() == {b"0/5", b"0/6", b"0/7", b"1/5"}
    for path in newest(tmp_path / "t").glob("0-*.parquet"):
        path.unlink()
    with pytest.raises(OSError, match="No such file"):
        target.apply(0, terms[0], {b"0/8": b"v"}, AT._replace(offset=8))
    assert opened(tmp_path / "t").claim(1).position == AT
    with pytest.raises(Fenced):
        target.flush(0, terms[0], now=True)
    assert target.claim(0).position is None
    target.close()


def test_a_replacement_that_does_not_fit_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_target, "_COLLECTED_BYTES", 1000)
    target = opened(tmp_path / "t")
    term = target.claim(0).term
    target.apply(0, term, {b"gone": b"1"}, AT)
    replacement = target.replace(0, term)
    expected = {b"%d" % each: b"v" * 50 for each in range(500)}
    for part in range(5):
        replacement.add(list(expected.items())[100 * part : 100 * part + 100])
    assert kept(tmp_path / "t") == {b"gone": b"1"}
    replacement.commit(AT._replace(offset=500))
    assert kept(tmp_path / "t") == expected
    target.close()


def test_old_versions_go(tmp_path: Path) -> None:
    target = opened(tmp_path / "t", keep_s=0)
    term = target.claim(0).term
    for number in range(5):
        target.apply(0, term, {b"a": b"%d" % number}, AT._replace(offset=number))
    wait_until(
        lambda: (
            target.apply(0, term, {}, AT) or len(list((tmp_path / "t").glob("[0-9]*"))) <= 2  # type: ignore[func-returns-value]
        ),
        "the old versions to go",
    )
    dead = tmp_path / "t" / "_aside" / "of a process that has died"
    dead.mkdir()
    (dead / "0-00.parquet").touch()
    target.close()
    target = opened(tmp_path / "t")
    target.claim(0)
    assert not dead.exists()
    assert kept(tmp_path / "t") == {b"a": b"4"}
    target.close()


def _keep_alone(folder: Path, partition: int, rounds: int) -> None:
    target = opened(folder, keep_s=0)
    term = target.claim(partition).term
    for number in range(rounds):
        key = b"%d/%d" % (partition, number % 10)
        target.apply(partition, term, {key: b"%d" % number}, AT._replace(offset=number))
    target.close()


def test_processes_that_write_at_the_same_time(tmp_path: Path) -> None:
    folder, rounds = tmp_path / "t", 30
    context = multiprocessing.get_context("fork")
    processes = [
        context.Process(target=_keep_alone, args=(folder, each, rounds)) for each in (0, 1)
    ]
    for each in processes:
        each.start()
    for each in processes:
        each.join(60)
    assert [each.exitcode for each in processes] == [0, 0]
    expected = {
        b"%d/%d" % (partition, number % 10): b"%d" % number
        for partition in (0, 1)
        for number in range(rounds)
    }
    assert kept(folder) == expected


def test_a_folder_is_absolute_or_relative_as_in_a_file_url(
    client: Client, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.append(rows(a="1"), topic)
    monkeypatch.chdir(tmp_path)
    absolute = tmp_path / "of 100%?"
    named = f"{tmp_path}/of%20100%25%3F"
    for to in (f"parquet:{named}", f"parquet://{named}", f"parquet:///{named}"):
        drumlin.materialize(client, topic, to, group="g", until_end=True)
    assert len(list((absolute / topic).glob("[0-9]*"))) > 1
    for to in ("parquet:of/lake", "parquet:of/lake?every=1"):
        drumlin.materialize(client, topic, to, group="g", until_end=True)
    assert kept(tmp_path / "of" / "lake" / topic) == {b"a": b"1"}
    assert sorted(each.name for each in tmp_path.iterdir()) == ["of", absolute.name]


def test_folders_and_addresses_that_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "mine.csv").touch()
    with pytest.raises(drumlin.TargetRefused, match=r"another program: 'mine\.csv'"):
        opened(tmp_path / "t")
    for wrong in (
        *("parquet://host/t", "parquet:", "parquet:s3://bucket/t", "parquet:t?table=..#x"),
        *("parquet:///t?buckets=0", "parquet:///t?every=soon", "parquet:t?table=..", "parquet:%00"),
    ):
        with pytest.raises(ValueError, match=f"'{re.escape(wrong)}': expected sqlite:"):
            targets.open_store(wrong, "g", None)


def test_deletions_that_may_have_been_missed(
    client: Client, topic: str, tmp_path: Path, serving_broker: DrumlinServer
) -> None:
    topic += "-cleaned"
    to = f"parquet:///{tmp_path}"
    lost_tombstone.create(client, topic, tombstones_stay=False)
    drumlin.materialize(client, topic, to, group="g", until_end=True)
    lost_tombstone.lose(client, topic, serving_broker.data, tombstones_stay=False)
    state = newest(tmp_path / topic) / "_drumlin.json"
    told = json.loads(state.read_text())
    told["partitions"]["0"]["at_end"] = lost_tombstone.of_another_machine()
    state.write_text(json.dumps(told))
    drumlin.materialize(client, topic, to, group="g", until_end=True)
    assert kept(tmp_path / topic) == LEFT


@pytest.mark.parametrize("kills", [1, pytest.param(50, marks=pytest.mark.deep)])
@pytest.mark.timeout(900)
def test_it_is_killed_at_any_moment(
    client: Client, topic: str, tmp_path: Path, serving_broker: DrumlinServer, kills: int
) -> None:
    """While a reader looks at each version, which has at no time less than before."""
    folder = tmp_path / topic
    stop, failures = threading.Event(), []

    def read() -> None:
        offsets: dict[str, int] = {}
        try:
            while not stop.wait(0.02):
                if list(folder.glob("[0-9]*")):
                    offsets = look(offsets)
        except BaseException as error:
            failures.append(error)

    def look(before: dict[str, int]) -> dict[str, int]:
        version = newest(folder)
        told = json.loads((version / "_drumlin.json").read_text())["partitions"]
        offsets = {name: each["offset"] or 0 for name, each in told.items()}
        assert all(offsets[name] >= offset for name, offset in before.items())
        names = [name for each in told.values() for name in each["files"].values()]
        assert sorted(names) == sorted(each.name for each in version.glob("*.parquet"))
        if names:
            ds.dataset(version, format="parquet").to_table()
        return offsets

    reader = threading.Thread(target=read)
    reader.start()
    try:
        to = f"parquet:///{tmp_path}?buckets=4&every=0"
        model = kill_again_and_again(
            client, serving_broker.address, topic, to, claims_in(folder), kills
        )
    finally:
        stop.set()
        reader.join(60)
    assert not failures
    assert kept(folder) == model


def claims_in(folder: Path) -> Callable[[], int]:
    def claims() -> int:
        if not list(folder.glob("[0-9]*")):
            return 0
        told = json.loads((newest(folder) / "_drumlin.json").read_text())["partitions"]
        return sum(each["term"] for each in told.values())

    return claims


def test_some_random_changes(tmp_path: Path) -> None:
    chance = random.Random(7)
    target = opened(tmp_path / "t")
    term = target.claim(0).term
    model: dict[bytes, bytes] = {}
    for number in range(20):
        changes = {
            b"%d" % chance.randrange(50): None if chance.random() < 0.5 else b"%d" % number
            for _ in range(20)
        }
        target.apply(0, term, changes, AT._replace(offset=number))
        model |= {key: value for key, value in changes.items() if value is not None}
        for key in [key for key, value in changes.items() if value is None]:
            model.pop(key, None)
        assert kept_or_none(tmp_path / "t") == model
    target.close()


def test_a_full_disk_is_named_and_changes_nothing(
    client: Client, topic: str, tmp_path: Path, serving_broker: DrumlinServer
) -> None:
    for first in range(0, 3000, 1000):
        some = {f"k{n}": random.randbytes(8).hex() for n in range(first, first + 1000)}
        client.append(rows(**some), topic)
    to = f"parquet:{tmp_path}?buckets=1"
    limited = f"ulimit -f 10; exec {sys.executable} -m drumlin materialize {topic} --to '{to}' "
    limited += f"--group g --until-end --bootstrap {serving_broker.address}"
    done = subprocess.run(["bash", "-c", limited], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"drumlin: {tmp_path / topic}: ")
    assert "File too large" in line
    assert not list(newest(tmp_path / topic).glob("*.parquet"))
    drumlin.materialize(client, topic, to, group="g", until_end=True)
    assert len(kept(tmp_path / topic)) == 3000
