"""A broker whose cleaner is quick, with one topic that all tests of states read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rig.drumlin_server import DrumlinServer
from spark.state.history import History, compacted_history


@pytest.fixture(scope="package")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    server = DrumlinServer(tmp_path_factory.mktemp("state"), {"log.cleaner.backoff.ms": "50"})
    try:
        server.start()
        yield compacted_history(server.address)
    finally:
        server.close()
    server.check_output()
