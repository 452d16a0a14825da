"""What happened in a run that broke a promise, told with as few faults as it takes."""

from __future__ import annotations

from collections.abc import Sequence

from replication.simulation.run.runs import ON_ZOOKEEPER, faults_of, run
from replication.simulation.world.faults import Fault

_LINES_MAX = 200


def fewest_faults(seed: int, store: str) -> Sequence[Fault]:
    """Faults without which all would be well, one by one; the others are left out."""
    faults: Sequence[Fault] = faults_of(seed, store)
    size = max(len(faults) // 2, 1)
    while size:
        at = 0
        while at < len(faults):
            fewer = faults[:at] + faults[at + size :]
            if run(seed, fewer, store=store).violation is not None:
                faults = fewer
            else:
                at += size
        size //= 2
    return faults


def story(seed: int, store: str = ON_ZOOKEEPER) -> str:
    """The trace of a run, to be read."""
    faults = fewest_faults(seed, store)
    outcome = run(seed, faults, store=store, is_traced=True)
    lines = [f"seed {seed}: {outcome.violation}", "the faults that it takes:"]
    lines += [f"  {fault}" for fault in faults]
    left_out = len(outcome.trace) - _LINES_MAX
    lines += [f"{left_out} lines are left out"] if left_out > 0 else []
    return "\n".join((*lines, *outcome.trace[-_LINES_MAX:]))
