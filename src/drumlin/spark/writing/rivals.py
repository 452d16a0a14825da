"""Detects two simultaneous runs of one query, which a copy of a checkpoint makes possible.

Their batches have the same numbers. The protocol compares the content, and stops a run with another
batch. This module detects two runs even while their batches are the same. A single run finds a
batch already decided only when it starts, never later. Spark creates a writer for each commit, but
keeps the process, so the state is kept here.
"""

from __future__ import annotations

from typing import Final

from drumlin.spark.writing.protocol.messages import TaskIdentity
from drumlin.spark.writing.protocol.sink_errors import Superseded

_RUNS_MAX: Final = 10_000

#: The last batch of each run that has committed in this process. The oldest commit comes first.
_last_own: dict[tuple[str, str], int] = {}


def check_alone(identity: TaskIdentity, *, was_decided: bool) -> None:
    """Check after a commit that no other run has decided a batch since this run started.

    Raises:
        Superseded: this run has written an earlier batch, and found this one decided by another.
    """
    if not identity.query:
        return
    run = identity.sink, identity.run
    before = _last_own.pop(run, None)
    if was_decided and before is not None and before < identity.batch:
        raise Superseded(
            f"sink {identity.sink!r}: another run has decided batch {identity.batch}, while this "
            f"one, which has written up to batch {before}, was running. Two queries have one "
            "checkpoint, or copies of it: their batches may differ, so compare the topic with the "
            "input, keep one of the two, and give the other a checkpoint of its own"
        )
    while len(_last_own) >= _RUNS_MAX:
        del _last_own[next(iter(_last_own))]
    _last_own[run] = identity.batch
