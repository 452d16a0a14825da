"""A short run of `script/torture --cluster`: what three brokers promise while leaders die."""

from __future__ import annotations

from pathlib import Path

import pytest

from guarantees.cluster.plans import FIRST
from guarantees.cluster.run import Plan
from guarantees.cluster.series import run_apart
from rig.fault_injection.injector import library
from rig.servers.running import skipped_where_unavailable
from rig.servers.zookeeper import check_available

pytestmark = [pytest.mark.clients, pytest.mark.zookeeper, pytest.mark.slow]

_TRIES = 3


def test_three_brokers_keep_what_they_promise(tmp_path: Path) -> None:
    """A leader is killed, and another one is cut from ZooKeeper for longer than its session."""
    with skipped_where_unavailable():
        check_available()
        library()
    for number in range(_TRIES):
        faults = ("kill", "pause", "cut_peers", "cut_zookeeper")
        plan = Plan(f"suite-{number}", 12.0, first=FIRST, faults=faults, faults_min=2)
        result = run_apart(plan, tmp_path / plan.seed)
        assert not result.complaints, "\n".join([*result.complaints, *result.done])
        if not result.void:
            return
    raise AssertionError(f"it never counts: {result.void}")
