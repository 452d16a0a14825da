"""What the tests of followers share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from replication.cluster import Cluster
from storage.samples import open_logs


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    leaders, followers = open_logs(tmp_path / "leader"), open_logs(tmp_path / "follower")
    cluster = Cluster(leaders, followers)
    with cluster.broker:
        yield cluster
    leaders.abandon()
    followers.abandon()
