"""`python -m replication.simulation SEED` in `tests`: one run, told as far as it takes."""

from __future__ import annotations

import sys

from replication.simulation.runs import run
from replication.simulation.story import story

for each in map(int, sys.argv[1:]):
    outcome = run(each, is_traced=True)
    print("\n".join(outcome.trace) if outcome.violation is None else story(each))
