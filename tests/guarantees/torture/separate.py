"""A run in a process of its own: clients are C libraries, and one that crashes takes its process.

A crash of a client voids its run: it says nothing about the broker. So does a machine that is too
busy for enough to happen.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from guarantees import history
from guarantees.torture.run import JAVA, Plan, Result

_TESTS = Path(__file__).parents[2]


@dataclass
class Outcome:
    """The report of a run."""

    committed: int = 0
    #: Of them, transactions v2 (KIP-890).
    of_v2: int = 0
    aborted: int = 0
    unknown: int = 0
    reads: int = 0
    seconds: float = 0.0
    faults: dict[str, int] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    directory: str = ""
    #: Why it does not count, if it does not.
    void: str = ""

    @classmethod
    def of(cls, result: Result) -> Outcome:
        found = result.history
        return cls(
            committed=found.count(history.Outcome.COMMITTED),
            of_v2=found.count(history.Outcome.COMMITTED, JAVA),
            aborted=found.count(history.Outcome.ABORTED),
            unknown=found.count(history.Outcome.UNKNOWN),
            reads=found.count_reads(),
            faults=result.faults,
            complaints=result.complaints,
            directory=str(result.directory or ""),
            void=result.shortfall,
        )

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def run_apart(plan: Plan, directory: Path) -> Outcome:
    """Run it in a process of its own, and leave nothing of it running."""
    began = time.monotonic()
    directory.parent.mkdir(parents=True, exist_ok=True)
    command = [
        *(sys.executable, "-X", "faulthandler", "-m", "guarantees.torture", "--one", plan.seed),
        *("--seconds", str(plan.seconds), "--broker", plan.broker, "--directory", str(directory)),
    ]
    path = os.pathsep.join([str(_TESTS), os.environ.get("PYTHONPATH", "")])
    said = directory.with_suffix(".out")
    with said.open("wb") as sink:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,  # so that its broker can be ended with it
        )
        try:
            code = process.wait(plan.seconds + 300)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end_group(process.pid)
            process.wait()
    outcome = _outcome(said, code)
    outcome.seconds = time.monotonic() - began
    if not outcome.complaints and not outcome.void:
        said.unlink()
    return outcome


def _end_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def _outcome(said: Path, code: int | None) -> Outcome:
    lines = said.read_text(errors="replace").strip().splitlines()
    if code is None:
        return Outcome(complaints=[f"it does not come to an end: {said}"])
    for line in reversed(lines):
        if line.startswith('{"committed"'):
            return Outcome(**json.loads(line))
    if code < 0:
        return Outcome(void=f"a client crashed: {signal.Signals(-code).name}, see {said}")
    return Outcome(complaints=[f"it ended with {code}: {said}"])
