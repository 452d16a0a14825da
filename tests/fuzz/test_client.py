"""A client that is answered with anything: errors that say so, and never an end or a hang."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.client import fuzz_client
from rig.depth import so_many


@pytest.mark.slow
@pytest.mark.deep
def test_a_client_takes_whatever_comes(tmp_path: Path) -> None:
    said = fuzz_client(tmp_path, "client", seconds=so_many(5, 15))
    assert "done" in said and "ClientError" in said, said
