"""Which store a broker has: decided by its configuration, and by what lies in its log dirs."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumlin.clock import SystemClock
from drumlin.config.broker import BrokerConfig
from drumlin.metadata.embedded.database import FILE_NAME
from drumlin.metadata.opening import IN_ZOOKEEPER, open_metadata
from drumlin.metadata.store.store import MetadataStore, UnusableMetadata

#: Nobody listens there.
_NOWHERE = "127.0.0.1:1"


def opened(*log_dirs: Path, zookeeper: str = "") -> MetadataStore:
    """The store of such a broker, which is closed again."""

    async def run() -> MetadataStore:
        settings = {
            "log.dirs": ",".join(map(str, log_dirs)),
            "zookeeper.connect": zookeeper,
            "zookeeper.connection.timeout.ms": "300",
        }
        store = await open_metadata(BrokerConfig(settings), SystemClock())
        await store.close()
        return store

    return asyncio.run(run())


def test_without_zookeeper_it_is_a_file(tmp_path: Path) -> None:
    cluster_id = opened(tmp_path / "a", tmp_path / "b").image.cluster_id
    assert (tmp_path / "a" / FILE_NAME).exists()
    assert opened(tmp_path / "a", tmp_path / "b").image.cluster_id == cluster_id
    with pytest.raises(UnusableMetadata, match=f"{FILE_NAME}, so zookeeper"):
        opened(tmp_path / "b", tmp_path / "a", zookeeper=_NOWHERE)


def test_log_dirs_whose_metadata_is_in_zookeeper(tmp_path: Path) -> None:
    (tmp_path / IN_ZOOKEEPER).write_text(_NOWHERE)
    with pytest.raises(UnusableMetadata, match=r"says: set zookeeper\.connect"):
        opened(tmp_path)
    assert not (tmp_path / FILE_NAME).exists()


def test_zookeeper_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UnusableMetadata, match=f"no ZooKeeper answers on {_NOWHERE}"):
        opened(tmp_path, zookeeper=_NOWHERE)
    assert not list(tmp_path.iterdir())  # nothing is decided by that


@pytest.fixture
def another_user() -> Iterator[None]:
    """For the time of a test: root would be allowed everything."""
    before = os.geteuid()
    os.seteuid(before or 65532)
    yield
    os.seteuid(before)


@pytest.mark.parametrize("place", ["", FILE_NAME])
@pytest.mark.usefixtures("another_user")
def test_who_may_not_write_there_is_named(place: str) -> None:
    """As of a container's volume: a mounted folder of the machine belongs to root."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = Path(folder, "data", place)
        path.parent.mkdir(exist_ok=True)
        path.touch(0o444) if place else path.mkdir(0o555)
        with pytest.raises(UnusableMetadata, match=f"user {os.geteuid()} may not .*{path}, which"):
            opened(Path(folder, "data"))
