"""Workers that are killed: their tasks are repeated, and table and topics are the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from drumlin.client.client import Client
from rig.jvm.java import spark_environment
from spark.state.history import History
from spark.state.restored_topics import committed, log_of, state_in

ROOT = Path(__file__).parents[3]


pytestmark = [pytest.mark.spark, pytest.mark.deep]


def run(program: str, history: History, folder: Path) -> dict[str, Any]:
    """What the program of this name prints."""
    # Not as `__main__`: that would be another module in the workers.
    start = f"from spark.state.dying_program import {program}; {program}()"
    arguments = [history.topic.address, history.topic.name, str(folder)]
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    ended = subprocess.run(
        [sys.executable, "-c", start, *arguments],
        env={**os.environ, **spark_environment(), "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    answer: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return answer


def test_a_worker_that_dies_in_each_stage(history: History, tmp_path: Path) -> None:
    answer = run("snapshot_program", history, tmp_path)
    assert answer["died"] == ["merging", "reading"]
    rows = answer["rows"]
    found = {(number, bytes.fromhex(key)): bytes.fromhex(value) for number, key, value in rows}
    assert len(found) == len(rows)
    assert found == history.state(history.end())


def test_a_worker_that_dies_in_each_stage_of_a_restore(
    history: History, client: Client, tmp_path: Path
) -> None:
    answer = run("restore_program", history, tmp_path)
    assert answer["died"] == ["copying", "merging", "reading"]
    state, records = answer["state"], answer["records"]
    assert state_in(client, state) == history.state(history.end())
    assert committed(client, records) == log_of(client, history.topic.name, history.end())
    client.delete_topic(state)
    client.delete_topic(records)
