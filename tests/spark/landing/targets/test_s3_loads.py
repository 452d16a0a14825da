"""A lake in an object store: every row once, whoever dies, lands, merges or reads meanwhile.

The store is in memory here; that with S3's interface is in `test_s3.py`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from typing import Any

import obstore
import pyarrow.parquet as pq
import pytest
from obstore.store import MemoryStore

from drumlin.spark.landing.rows import small_files
from drumlin.spark.landing.rows.mode import Period
from drumlin.spark.landing.rows.rows import Rows
from drumlin.spark.landing.targets.s3_lake import folder as s3_folder
from drumlin.spark.landing.targets.s3_lake import lake as s3
from drumlin.spark.landing.targets.target import LandingRefused, OtherRun, Position
from rig.depth import IS_DEEP
from spark.landing.targets.local_batch import LocalBatch, records
from spark.landing.targets.s3_lake import Loads

#: The number of loads that are worth merging, here.
FEW = 3
URL = "s3://bucket/lake"
Steps = Callable[[Callable[[int], None]], None]


@pytest.fixture(autouse=True)
def _a_store_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    stores = defaultdict[str, Any](MemoryStore)
    monkeypatch.setattr(s3_folder, "opened", lambda url, account: (stores[url], account))
    monkeypatch.setattr(small_files, "FEW", FEW)


class Died(BaseException):
    """Here the process has ended."""


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    """Has a function called before each request that changes something, with its number."""

    def watch(before: Callable[[int], None]) -> None:
        numbers = count()

        class Requests:
            def __getattr__(self, name: str) -> Any:
                found = getattr(obstore, name)
                if name not in ("put", "copy", "delete", "open_writer"):
                    return found

                def step(*arguments: Any, **options: Any) -> Any:
                    before(next(numbers))
                    return found(*arguments, **options)

                return step

        monkeypatch.setattr(s3_folder, "obstore", Requests())

    return watch


def _begun(url: str = URL, period: Period | None = None) -> Loads:
    """A lake with so many loads that they are worth merging."""
    loads = Loads(url, period)
    for _ in range(FEW + 1):
        loads.land()
    return loads


@pytest.mark.parametrize("period", [None, "day"])
def test_the_layout_is_that_of_any_lake(period: Period | None) -> None:
    loads = Loads(URL, period)
    loads.land()
    loads.land()
    within = "" if period is None else "day=1970-01-02/"
    first, end = (f"{each:020}" for each in (2 if period is None else 3, 4))
    assert f"load=00000001/{within}1-{first}-{end}.parquet" in loads.names()
    told = json.loads(loads.read("load=00000001/_offsets.json").read())
    assert (told["topic"], told["topic_id"], told["offsets"]) == ("t", "id", {"0": 4, "1": 4})
    assert not [name for name in loads.names() if name.startswith("_")]
    loads.check()


def test_of_two_runs_at_once_one_fails() -> None:
    """However late it comes: also if the load of its number was merged long ago."""
    loads = Loads(URL)
    batch = LocalBatch(Rows.of("append"), records(0, range(2)))
    first = loads.lake()
    loads.land()
    with pytest.raises(OtherRun, match="another run has made load=00000000"):
        first.add(batch, Position("t", "id", {0: 2, 1: 0}))
    loads.check()
    late = loads.lake()
    for _ in range(FEW):
        loads.land()
    loads.lake().compact()
    loads.check()
    with pytest.raises(OtherRun, match="another run has made load=00000001"):
        late.add(batch, Position("t", "id", {0: 2, 1: 0}))
    loads.check()
    assert not [name for name in loads.names() if name.startswith("_aside")]


@pytest.mark.parametrize("period", [None, "day"])
def test_small_loads_become_one(period: Period | None) -> None:
    loads, days = Loads(URL, period), 1 if period is None else 2
    for _ in range(FEW):
        loads.land()
    loads.lake().compact()
    assert len(loads.files()) == 2 * FEW * days  # the newest one does not count
    loads.land()
    loads.lake().compact()
    loads.check()
    assert {each.partition("/")[0] for each in loads.files()} == {"load=00000003", "load=00000004"}
    within = "" if period is None else "day=1970-01-01/"
    end = 2 * FEW if period is None else 2 * FEW - 1
    file = pq.ParquetFile(loads.read(f"load=00000004/{within}0-{0:020}-{end:020}.parquet"))
    assert file.metadata.metadata[b"first_offset"] == b"0"
    assert file.read()["offset"].to_pylist() == sorted(file.read()["offset"].to_pylist())
    for _ in range(FEW):
        loads.land()
    loads.lake().compact()
    loads.check()


@pytest.mark.parametrize("does", ["land", "compact"])
def test_a_run_that_is_killed_at_any_step(steps: Steps, does: str) -> None:
    """Nothing is there twice then, and nothing is missing once the next run has begun."""
    number, is_killed = 0, True
    while is_killed:
        loads = _begun(f"{URL}-{number}")
        is_killed = False

        def die(step: int, at: int = number) -> None:
            if step >= at:
                raise Died

        steps(die)
        try:
            loads.lake().compact() if does == "compact" else loads.land()
        except Died:
            is_killed = True
        steps(lambda _: None)
        listed, exact = loads.listed(), loads.exact()
        assert len(listed) == len(set(listed))
        if number % 2:
            loads.lake().complete()
            loads.check()
            # A load does not count until it is complete; a merge always does.
            lacks = len(loads.expected()) - len(exact)
            assert lacks in ((0,) if does == "compact" else (0, 4))
            assert set(exact) <= set(loads.expected())
        loads.land()
        loads.check()
        loads.lake().compact()
        loads.check()
        number += 1
    assert number > 6


def test_a_reader_at_any_moment(steps: Steps) -> None:
    loads = _begun()
    loads.check()
    moments = list[int]()

    def look(_: int) -> None:
        assert loads.exact() == loads.expected()
        listed = loads.listed()
        assert len(listed) == len(set(listed))  # too few for a moment, and nothing twice
        moments.append(len(listed))

    steps(look)
    loads.lake().compact()
    loads.land()
    assert min(moments) < len(loads.expected())
    loads.check()


@pytest.mark.parametrize("does", ["compact", "land"])
@pytest.mark.parametrize("other", ["compact", "land"])
def test_another_run_at_any_step(steps: Steps, does: str, other: str) -> None:
    """The first one goes on from what it has read long ago."""

    def run(loads: Loads, what: str) -> None:
        loads.lake().compact() if what == "compact" else loads.land()

    number, has_been = 0, True
    while has_been:
        loads, has_been = _begun(f"{URL}-{number}"), False

        def meanwhile(step: int, at: int = number, loads: Loads = loads) -> None:
            nonlocal has_been
            if step == at and not has_been:
                has_been = True
                run(loads, other)

        steps(meanwhile)
        try:
            run(loads, does)
        except OtherRun:
            assert does == "land"
        steps(lambda _: None)
        loads.lake().complete()
        loads.check()
        loads.land()
        loads.check()
        number += 1 if IS_DEEP else 3
    assert number > 6


def test_an_answer_that_is_lost_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store has made the commit, and its client asks again."""
    loads, put = Loads(URL), obstore.put

    def twice(store: Any, name: str, data: bytes, **options: Any) -> Any:
        if name.endswith("_offsets.json"):
            put(store, name, data, **options)
        return put(store, name, data, **options)

    monkeypatch.setattr(s3_folder.obstore, "put", twice)
    loads.land()
    loads.check()


def test_what_killed_runs_have_left_goes_when_it_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    loads = Loads(URL)
    loads.land()
    loads.folder.write("_aside/dead/file", b"x")
    loads.land()
    assert "_aside/dead/file" in loads.names()
    monkeypatch.setattr(s3, "_DEAD_AFTER", timedelta(0))
    loads.lake().tidy()
    assert "_aside/dead/file" not in loads.names()
    loads.check()


class Emptied(LocalBatch):
    """A batch whose files are gone when they are to be committed."""

    def confirm(self) -> None:
        _empty(Loads(URL))


def _empty(loads: Loads, prefix: str = "_aside") -> None:
    loads.folder.delete([name for name in loads.names() if name.startswith(prefix)])


def test_files_that_are_gone_are_told(steps: Steps) -> None:
    """As a lifecycle rule takes them: nothing lands, or what has landed is named."""
    loads = Loads(URL)
    loads.land()
    batch = Emptied(Rows.of("append"), records(0, range(2, 4)))
    with pytest.raises(LandingRefused, match=r"is not there any more, or never was: a lifecycle"):
        loads.lake().add(batch, Position("t", "id", {0: 4, 1: 4}))
    loads.check()

    def die(step: int) -> None:
        if step == 5:  # two of the probe, two files, the commit
            raise Died

    steps(die)
    with pytest.raises(Died):
        loads.land()
    steps(lambda _: None)
    _empty(loads)
    _empty(loads, "load=00000001/0-")
    with pytest.raises(LandingRefused, match=r"load=00000001/[01]-.* Remove all of s3://"):
        loads.lake().complete()
    _empty(loads, "load=00000001/")
    loads.land()
    loads.check()


def test_a_store_that_overwrites_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    put = obstore.put
    monkeypatch.setattr(
        s3_folder.obstore, "put", lambda store, name, data, **_: put(store, name, data)
    )
    with pytest.raises(LandingRefused, match="overwrites objects although told not to"):
        Loads(URL).land()
    assert not Loads(URL).names()


def test_a_load_that_tells_no_offsets_is_named() -> None:
    loads = Loads(URL)
    loads.folder.write("load=00000000/0-1-2.parquet", b"")
    with pytest.raises(LandingRefused, match=r"load=00000000/_offsets\.json tells no offsets"):
        loads.lake()
    loads.folder.write("load=00000000/_offsets.json", b"[]")
    with pytest.raises(LandingRefused, match=r"load=00000000/_offsets\.json tells no offsets"):
        loads.lake()
