"""Earlier versions of Drumlin, built of the repository's history, as servers for tests.

Without the history (an archive, a shallow clone) there are none, and tests are skipped.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Final

import pytest

from rig.brokers.drumlin_server import DrumlinServer

ROOT: Final = Path(__file__).parents[2]
#: The last commit of 0.1.0, which was never tagged.
LAST_OF_0_1: Final = "676ee8ccc52d179172f6062786ea42235d863975"
#: The last commit of 0.2.0 before brokers knew users and rights; it has clusters.
BEFORE_SECURITY: Final = "fab8138dc1925bcbadf206983120a2c4bb095d28"


def last_release() -> str:
    """The last tag of a version before this commit, or the commit that stands for 0.1.0."""
    found = subprocess.run(
        ["git", "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", "HEAD^"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    return found.stdout.strip() if found.returncode == 0 else LAST_OF_0_1


def install(revision: str, folder: Path) -> str:
    """Install a revision in an environment of its own; returns its interpreter."""
    archive = subprocess.run(["git", "archive", revision], cwd=ROOT, capture_output=True)
    if archive.returncode != 0:
        pytest.skip(f"the history has no {revision}: {archive.stderr.decode().strip()}")
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
        files.extractall(folder / "source", filter="data")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    python = str(folder / "venv/bin/python")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, str(folder / "source")], check=True)
    return python


class ServerOf(DrumlinServer):
    """A server whose version can be changed while it is stopped: `python` is its interpreter."""

    python = sys.executable

    def command(self) -> list[str]:
        return [self.python, *super().command()[1:]]

    def refusal(self) -> str:
        """What it says when it cannot start."""
        said_before = len(self.said())
        self.launch(self.command())
        assert self.wait_until_ended() == 1
        return self.said()[said_before:]
