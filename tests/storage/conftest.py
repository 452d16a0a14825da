"""Where the tests of logs have them: one with the defaults, unless a test's file says otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.storage.log.partition_log import PartitionLog
from storage.samples import create, folder_in_memory, open_logs


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory: logs are made and thrown away in it by the hundred."""
    with folder_in_memory() as path:
        yield path


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[LogDirectories]:
    """One log dir, without logs."""
    logs = open_logs(tmp_path)
    yield logs
    logs.abandon()


@pytest.fixture
def log(logs: LogDirectories) -> PartitionLog:
    """Partition 0 of `t`, empty."""
    return create(logs)
