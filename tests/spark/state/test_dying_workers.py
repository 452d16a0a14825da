"""Workers that are killed amid a snapshot: their tasks are repeated, and the table is the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rig.java import spark_environment
from spark.state.history import History

ROOT = Path(__file__).parents[3]


@pytest.mark.spark
@pytest.mark.deep
def test_a_worker_that_dies_in_each_stage(history: History, tmp_path: Path) -> None:
    # Not as `__main__`: that would be another module in the workers.
    start = "from spark.state.dying_program import main; main()"
    arguments = [history.topic.address, history.topic.name, str(tmp_path)]
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
    answer = json.loads(ended.stdout.splitlines()[-1])
    assert answer["died"] == ["merging", "reading"]
    rows = answer["rows"]
    found = {(number, bytes.fromhex(key)): bytes.fromhex(value) for number, key, value in rows}
    assert len(found) == len(rows)
    assert found == history.state(history.end())
