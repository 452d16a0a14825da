"""A store of each kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from drumlin.metadata.sqlite import SqliteMetadata
from drumlin.metadata.store import MetadataStore
from metadata.stores import Stores


@pytest.fixture(params=["sqlite"])
def stores(tmp_path: Path) -> Stores:
    async def open_embedded() -> MetadataStore:
        return SqliteMetadata.open(tmp_path)

    return Stores(open_embedded)
