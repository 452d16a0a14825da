"""Names of a sink in the cluster: its transactional ids, its group, its key in the decision topic.

All begin with `drumlin.`, so that one prefixed ACL covers them. Transactional ids of tasks are
owned by the process that generates them: `drumlin.<sink>.<run>.<process>.<number>`. Two processes
never share one, so none can take the place of another's transaction by mistake.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final, NamedTuple

PREFIX: Final = "drumlin."
DECISION_TOPIC: Final = "drumlin-sinks"

_SINK: Final = re.compile(r"[A-Za-z0-9._/-]{1,150}")
_RUN: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
_TASK_ID: Final = re.compile(r"drumlin\.(.+)\.([A-Za-z0-9-]{1,64})\.([0-9a-f]{12})\.([0-9]+)")


class TaskId(NamedTuple):
    """The parts of a task's transactional id."""

    sink: str
    run: str
    process: str
    number: int

    def __str__(self) -> str:
        return f"{PREFIX}{self.sink}.{self.run}.{self.process}.{self.number}"


def is_sink(name: str) -> bool:
    """Whether a sink can have this name."""
    return bool(_SINK.fullmatch(name))


def check_sink(sink: str) -> str:
    """
    Raises:
        ValueError: no sink can have this name.
    """
    if not is_sink(sink):
        raise ValueError(
            "a sink's name must have 1 to 150 letters, digits, dots, dashes, underscores or "
            f"slashes, not {sink!r}"
        )
    return sink


def run_name(run: str) -> str:
    """A run's name as ids contain it: a digest if it does not fit, as users name job groups."""
    return run if _RUN.fullmatch(run) else hashlib.sha256(run.encode()).hexdigest()[:32]


def parse_task_id(transactional_id: str) -> TaskId | None:
    """The parts of the id; None if it is not the id of a sink's task."""
    found = _TASK_ID.fullmatch(transactional_id)
    return TaskId(found[1], found[2], found[3], int(found[4])) if found else None


def driver_id(sink: str) -> str:
    """The transactional id shared by all drivers of a sink: initialising it fences the others."""
    return f"{PREFIX}{sink}.driver"


def group_of(sink: str) -> str:
    """The group to which the offset of the last decision is committed."""
    return f"{PREFIX}{sink}"
