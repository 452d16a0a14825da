"""What the programs are run with: fetched once into .cache/ecosystem, by version.

Nothing happens on import. `Unavailable` says why a machine cannot have it; tests skip with it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rig.jars import Unavailable

_FOLDER = Path(__file__).parents[2] / ".cache" / "ecosystem"
_TIMEOUT_S = 600.0


def python_with(requirement: str) -> Path:
    """A Python of its own with one package, and what that needs.

    Raises:
        Unavailable: it cannot be installed.
    """
    folder = _FOLDER / requirement.replace("==", "-")
    python = folder / "bin" / "python"
    if not folder.exists():
        folder.mkdir(parents=True)
        _in(folder, [sys.executable, "-m", "venv", "."])
        quietly = ["--quiet", "--disable-pip-version-check", "--no-compile"]
        _in(folder, [str(python), "-m", "pip", "install", *quietly, requirement])
    return python


def javascript_with(*packages: str) -> tuple[str, Path]:
    """Node, and a folder with packages of npm in `node_modules`.

    Raises:
        Unavailable: there is no Node, or they cannot be installed.
    """
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise Unavailable("Node.js is not installed")
    folder = _FOLDER / "javascript"
    if not all((folder / "node_modules" / each.rpartition("@")[0]).exists() for each in packages):
        folder.mkdir(parents=True, exist_ok=True)
        _in(folder, [npm, "install", "--no-audit", "--no-fund", "--silent", *packages])
    return node, folder


def _in(folder: Path, command: Sequence[str]) -> None:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{command[0]} took more than {_TIMEOUT_S:.0f} s") from None
    if done.returncode:
        raise Unavailable(f"{' '.join(command)}: {done.stderr.strip()[-500:]}")
