"""One cluster id for all log dirs, whichever of them was lost."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path

import pytest

from broker.in_process import config, running
from drumlin.broker.start.broker import Broker
from drumlin.broker.start.startup import StartFailed
from drumlin.clock import SystemClock
from drumlin.metadata.embedded.database import FILE_NAME
from storage.samples import prepared

META = "meta.properties"


@pytest.fixture
def dirs(tmp_path: Path) -> tuple[Path, Path]:
    """Two log dirs of one broker, each with a partition of the topic `t`, which has a record."""
    dirs = tmp_path / "a", tmp_path / "b"

    async def run() -> None:
        async with running(*dirs) as broker:
            await broker.metadata.create_topic("t", [[1], [1]], {})
            for index in (0, 1):
                partition = broker.partitions.get("t", index)
                partition.append_as_leader(prepared(), 1, broker.clock.wall_ms())

    asyncio.run(run())
    return dirs


def cluster_id(path: Path) -> str:
    found = re.search("^cluster.id=(.*)$", (path / META).read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def refusal(*dirs: Path) -> str:
    """The line that keeps a broker from starting, after which everything is as it was."""
    before = {path for each in dirs for path in each.rglob("*")}
    with pytest.raises(StartFailed) as failed:
        asyncio.run(Broker.start(config(*dirs), SystemClock()))
    assert {path for each in dirs for path in each.rglob("*")} == before
    (line,) = str(failed.value).splitlines()
    return line


def test_the_first_of_two_dirs_was_lost(dirs: tuple[Path, Path]) -> None:
    id_before = cluster_id(dirs[1])
    shutil.rmtree(dirs[0])

    async def run() -> None:
        async with running(*dirs) as broker:
            assert broker.metadata.image.cluster_id == id_before
            ends = [broker.partitions.get("t", index).log_end_offset for index in (0, 1)]
            assert sorted(ends) == [0, 1]

    asyncio.run(run())
    assert cluster_id(dirs[0]) == id_before
    asyncio.run(run())


def test_a_file_that_says_whose_a_dir_is_was_lost(dirs: tuple[Path, Path]) -> None:
    id_before = cluster_id(dirs[0])
    for path in dirs:
        (path / META).unlink()

    async def run() -> None:
        async with running(*dirs) as broker:
            assert broker.metadata.image.cluster_id == id_before

    asyncio.run(run())
    assert {cluster_id(path) for path in dirs} == {id_before}


def test_dirs_of_two_clusters(dirs: tuple[Path, Path], tmp_path: Path) -> None:
    meta = dirs[1] / META
    mine, other = cluster_id(dirs[0]), "AAAAAAAAAAAAAAAAAAAAAA"
    meta.write_text(meta.read_text().replace(mine, other))
    assert other in refusal(*dirs)
    (dirs[0] / FILE_NAME).unlink()  # so there is nothing but the word of the dirs themselves
    (tmp_path / "new").mkdir()
    for order in (dirs, (tmp_path / "new", *dirs)):
        line = refusal(*order)
        assert mine in line
        assert other in line


def test_a_store_of_another_cluster_than_the_other_dir(dirs: tuple[Path, Path]) -> None:
    (dirs[0] / META).unlink()
    meta = dirs[1] / META
    meta.write_text(meta.read_text().replace(cluster_id(dirs[1]), "AAAAAAAAAAAAAAAAAAAAAA"))
    assert "AAAAAAAAAAAAAAAAAAAAAA" in refusal(*dirs)


def test_nothing_new_begins_while_a_dir_cannot_be_read(dirs: tuple[Path, Path]) -> None:
    id_before = cluster_id(dirs[1])
    shutil.rmtree(dirs[0])
    dirs[0].mkdir()
    elsewhere = dirs[1].with_name("elsewhere")
    dirs[1].rename(elsewhere)
    dirs[1].write_text("a broken disk")
    assert str(dirs[1]) in refusal(*dirs)
    dirs[1].unlink()
    elsewhere.rename(dirs[1])

    async def run() -> None:
        async with running(*dirs) as broker:
            assert broker.metadata.image.cluster_id == id_before
            assert "t" in broker.metadata.image.topics

    asyncio.run(run())


def test_the_dir_with_the_metadata_must_come_first(dirs: tuple[Path, Path]) -> None:
    assert f"the metadata lies in {dirs[0]}" in refusal(dirs[1], dirs[0])


@pytest.mark.parametrize("number", [0, 1])
def test_a_version_that_is_not_known(dirs: tuple[Path, Path], number: int) -> None:
    meta = dirs[number] / META
    meta.write_text(meta.read_text().replace("version=1", "version=7"))
    line = refusal(*dirs)
    assert str(meta) in line
    assert "'7'" in line


@pytest.mark.parametrize("content", [b"", b"#\nversion=1\n"])
def test_a_file_that_does_not_say_whose_a_dir_is(
    dirs: tuple[Path, Path], caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    path = dirs[1] / META
    before = path.read_text().splitlines()
    path.write_bytes(content)
    asyncio.run(_started(*dirs))
    assert f"{path} names no owner of the log dir" in caplog.text
    assert {"cluster.id", "node.id"} <= {line.split("=")[0] for line in path.read_text().split()}
    assert len(path.read_text().splitlines()) == len(before)


@pytest.mark.parametrize("is_emptied", [True, False])
def test_metadata_that_is_gone_is_said(
    dirs: tuple[Path, Path], caplog: pytest.LogCaptureFixture, is_emptied: bool
) -> None:
    for path in dirs[0].glob(FILE_NAME + "*"):
        path.unlink()
    if is_emptied:
        (dirs[0] / FILE_NAME).touch()
    asyncio.run(_started(*dirs))
    assert f"There is no metadata in {dirs[0]}" in caplog.text


async def _started(*dirs: Path) -> None:
    async with running(*dirs):
        pass
