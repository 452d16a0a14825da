"""The transactional ids that a process has generated for itself, and when it reuses one.

No other process initialises them while their transaction may win. An id is reused only after its
last transaction was *seen committed* and its batch done. The id of a loser is not: a driver that
was about to abort the loser, and was suspended, may still fence the id later.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, field
from typing import Final

from drumlin.spark.writing.protocol import names
from drumlin.spark.writing.protocol.requests import Describe, Steps
from drumlin.spark.writing.protocol.state import SinkState
from drumlin.spark.writing.protocol.transactions import Opened
from drumlin.spark.writing.protocol.winners import COMMITTED

#: The number of sinks' runs whose ids are kept for reuse; each batch write is a run of its own.
_RUNS_MAX: Final = 100


@dataclass(slots=True)
class _Of:
    """The ids for one run of one sink."""

    waiting: dict[Opened, int] = field(default_factory=dict)  # detached, and in which batch
    free: list[str] = field(default_factory=list)
    made: int = 0


class OwnIds:
    """All ids of one process. Not for several threads."""

    def __init__(self, process: str | None = None) -> None:
        self._process = process or secrets.token_hex(6)
        self._of: dict[tuple[str, str], _Of] = {}  # the last used one is last
        self._made_for_forgotten = 0  # the highest id of runs that were dropped

    def choose(self, sink: str, run: str, state: SinkState | None) -> Steps[str]:
        """An id without an open transaction that may still win."""
        own = self._of_run(sink, run)
        if not own.free and state is not None:
            settled = [key for key, batch in own.waiting.items() if state.is_settled(batch)]
            if settled:
                known = yield Describe(tuple(each.transactional_id for each in settled))
                for each in settled:
                    del own.waiting[each]
                    found = known.get(each.transactional_id)
                    if found is not None and found.is_of(each) and found.state in COMMITTED:
                        own.free.append(each.transactional_id)
        if own.free:
            return own.free.pop()
        own.made += 1
        return str(names.TaskId(sink, names.run_name(run), self._process, own.made - 1))

    def detached(self, sink: str, run: str, opened: Opened, batch: int) -> None:
        """Note that this process has finished with a transaction; drivers commit or abort it."""
        self._of_run(sink, run).waiting[opened] = batch

    def _of_run(self, sink: str, run: str) -> _Of:
        own = self._of.pop((sink, run), None) or _Of(made=self._made_for_forgotten)
        self._of[sink, run] = own
        while len(self._of) > _RUNS_MAX:
            forgotten = self._of.pop(next(iter(self._of)))
            self._made_for_forgotten = max(self._made_for_forgotten, forgotten.made)
        return own


_owned: OwnIds | None = None


def of_this_process() -> OwnIds:
    """This process's ids; a forked process has its own."""
    global _owned
    if _owned is None:
        _owned = OwnIds()
    return _owned


def _forget() -> None:
    global _owned
    _owned = None


os.register_at_fork(after_in_child=_forget)  # comparing process ids is not enough: they are reused
