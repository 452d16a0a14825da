"""Short ones of the proofs that `script/torture --sink` makes at length."""

from __future__ import annotations

from pathlib import Path

import pytest

from rig.servers.running import skipped_where_unavailable
from spark.sink_proof.plan import STANDALONE, Plan
from spark.sink_proof.run import Result, prove

pytestmark = [pytest.mark.spark, pytest.mark.deep]


def proven(plan: Plan, folder: Path) -> Result:
    with skipped_where_unavailable():
        return prove(plan, folder)


@pytest.mark.parametrize(
    "plan",
    [
        Plan("short", batches=2, tasks=2, failing_tasks=0.2, faults=("broker",)),
        Plan("driver", batches=3, tasks=2, failing_tasks=0.2, faults=("driver", "broker")),
        Plan(
            "local",
            batches=6,
            tasks=3,
            failing_tasks=0.2,
            failing_commits=0.5,
            faults=("driver", "sleep", "broker"),
        ),
        Plan(
            "cluster",
            master="local-cluster[2,1,1024]",
            batches=4,
            tasks=3,
            failing_tasks=0.1,
            faults=("executor",),
        ),
        Plan(
            "speculation",
            master=STANDALONE,
            batches=4,
            tasks=3,
            failing_tasks=0.5,
            faults=("program",),
            speculation=True,
        ),
    ],
    ids=["short", "driver", "local", "cluster", "speculation"],
)
def test_every_row_is_written_once(plan: Plan, tmp_path: Path) -> None:
    result = proven(plan, tmp_path / "proof")
    assert (result.complaints, result.unseen) == ([], [])
    assert result.rows == plan.rows
    assert all(result.faults[each] for each in plan.faults)
