"""Today's version on the data of an earlier one, and the way back: docs/upgrading.md."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from upgrades.contents import advance, create_topics, read, write
from upgrades.earlier import BEFORE_SECURITY, ServerOf, install, last_release

pytestmark = [pytest.mark.deep, pytest.mark.clients, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module", params=[last_release(), BEFORE_SECURITY])
def earlier(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The interpreter of an earlier version."""
    return install(request.param, tmp_path_factory.mktemp("earlier"))


@pytest.mark.parametrize("ending", ["stopped", "killed"])
def test_there_and_back(earlier: str, tmp_path: Path, ending: str) -> None:
    """All is there after an upgrade. What goes back is the copy that was made before."""
    server = ServerOf(tmp_path)
    server.python = earlier
    before = tmp_path / "before"
    try:
        server.start()
        create_topics(server.address)
        write(server.address, "earlier")
        first = advance(server.address, 100)
        written = read(server.address)
        server.stop() if ending == "stopped" else server.kill()
        shutil.copytree(server.data, before, ignore=shutil.ignore_patterns("*.sock"))

        server.python = sys.executable
        server.start()
        assert read(server.address) == written
        second = advance(server.address, 230)
        assert len({*first, *second}) == 330  # all of them, each once
        write(server.address, "today's")
        run = [sys.executable, "-m", "drumlin", "compaction", "run", "table", "--roll"]
        subprocess.run([*run, "--data", str(server.data)], check=True)
        grown = read(server.address)
        assert sum(map(len, grown.records.values())) == 660
        server.stop()

        server.python = earlier
        assert "schema version" in server.refusal()
        server.python = sys.executable
        server.start()  # the attempt has changed nothing
        assert read(server.address) == grown
        server.stop()
        assert "Traceback" not in server.said()

        shutil.rmtree(server.data)
        before.rename(server.data)
        server.python = earlier
        server.start()
        assert read(server.address) == written
        server.stop()
    finally:
        server.close()
