"""`python -m replication.simulation [machine] SEED …` in `tests`: runs, told as far as it takes."""

from __future__ import annotations

import sys

from replication.simulation.run.runs import ON_MACHINE, ON_ZOOKEEPER, run
from replication.simulation.run.story import story

asked = sys.argv[1:]
store = ON_MACHINE if ON_MACHINE in asked else ON_ZOOKEEPER
for each in map(int, (word for word in asked if word != ON_MACHINE)):
    outcome = run(each, store=store, is_traced=True)
    print("\n".join(outcome.trace) if outcome.violation is None else story(each, store))
