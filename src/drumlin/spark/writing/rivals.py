"""Two runs of one query at a time: what a copy of a checkpoint makes possible.

Their batches have the same numbers and need not have the same rows, so that one would take for
its own what the other has decided. A run finds a batch decided when it starts, and only then.
Spark makes a writer for each commit, but keeps the process: that is what remembers here.
"""

from __future__ import annotations

from typing import Final

from drumlin.spark.writing.protocol.errors import Superseded
from drumlin.spark.writing.protocol.messages import TaskIdentity

_RUNS_MAX: Final = 10_000

#: Runs that have committed here, and what they were the first to decide. Oldest first.
_last_own: dict[tuple[str, str], int] = {}


def check_alone(identity: TaskIdentity, *, was_decided: bool) -> None:
    """After a commit: has this run decided the batch, or found it decided?

    Raises:
        Superseded: it had gone on to this batch by itself, and another run has decided that.
    """
    if not identity.query:
        return
    run = identity.sink, identity.run
    before = _last_own.pop(run, None)
    if was_decided and before is not None and before < identity.batch:
        raise Superseded(
            f"sink {identity.sink!r}: another run has decided batch {identity.batch}, while this "
            f"one, which has written up to batch {before}, was going on. Two queries have one "
            "checkpoint, or copies of it: their batches may differ, so compare the topic with the "
            "input, keep one of the two, and give the other a checkpoint of its own"
        )
    while len(_last_own) >= _RUNS_MAX:
        del _last_own[next(iter(_last_own))]
    _last_own[run] = identity.batch
