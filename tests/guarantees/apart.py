"""A run in a process of its own: clients are C libraries, and one that crashes takes its process.

It reports by a JSON object in its last lines. Nothing of it is left running.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

_TESTS = Path(__file__).parents[1]


class Report(NamedTuple):
    """How it ended. Without what it has to report it has failed, or says nothing."""

    result: dict[str, Any] | None
    #: It does not come to an end, or has failed itself.
    failure: str = ""
    #: A client has crashed, which says nothing about the broker.
    void: str = ""


def run_apart(module: str, arguments: Sequence[str], said: Path, timeout_s: float) -> Report:
    """Run a module; what it says goes into a file."""
    said.parent.mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join([str(_TESTS), os.environ.get("PYTHONPATH", "")])
    with said.open("wb") as sink:
        process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-m", module, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,  # so that its brokers can be ended with it
        )
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return Report(None, failure=f"it does not come to an end: {said}")
        finally:
            _end_group(process.pid)
            process.wait()
    for line in reversed(said.read_text(errors="replace").strip().splitlines()):
        if line.startswith('{"'):
            return Report(json.loads(line))
    if code < 0:
        name = signal.Signals(-code).name
        return Report(None, void=f"a client crashed: {name}, see {said}")
    return Report(None, failure=f"it ended with {code}: {said}")


def report(result: dict[str, Any]) -> None:
    """Say it, as the last of a run."""
    print(json.dumps(result), flush=True)


def _end_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return
