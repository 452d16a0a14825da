"""Where the tests of the cleaner have their logs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.samples import folder_in_memory


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory: logs are made and thrown away in it by the hundred."""
    with folder_in_memory() as path:
        yield path
