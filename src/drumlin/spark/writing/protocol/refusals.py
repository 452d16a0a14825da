"""Refusals: entries of a sink's state that name transactions which must never be decided.

Before a process aborts a transaction that may still win, it writes an entry, under the fence. An
entry begins with a batch, and is dropped once that batch is done: after that, no transaction that
the entry names can be decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from drumlin.spark.writing.protocol import names
from drumlin.spark.writing.protocol.job import Job


def of_run(batch: int | str, run: str) -> str:
    """The entry for a whole run, from a batch on."""
    return f"{batch}:run:{run}"


def of_runs(transactional_ids: Iterable[str], batch: int) -> list[str]:
    """The entries for the runs of these tasks, from `batch` on."""
    ids = map(names.parse_task_id, transactional_ids)
    return sorted({of_run(batch, each.run) for each in ids if each is not None})


def of_open(batch: int, run: str, tasks: Iterable[names.TaskId]) -> str:
    """The entry for open transactions of a run, none of which belongs to a batch after `batch`.

    Their ids are enough: a process never reuses the id of an aborted transaction. Its numbers are
    mostly consecutive, so the entry stays short for any number of tasks.
    """
    numbers: dict[str, set[int]] = {}
    for each in tasks:
        numbers.setdefault(each.process, set()).add(each.number)
    spans = (f"{process}.{','.join(_spans(found))}" for process, found in sorted(numbers.items()))
    return f"{batch}:open:{run}:{' '.join(spans)}"


def is_refused(job: Job, refused: Sequence[str]) -> bool:
    """Whether this job must not be decided."""
    run, is_open = of_run("", job.run), f":open:{job.run}:"
    if any(each == job.token or each.endswith(run) for each in refused):
        return True
    spans: dict[str, list[tuple[int, int]]] = {}
    for entry in refused:
        _, is_ours, listed = entry.partition(is_open)
        for each in listed.split() if is_ours else ():
            process, _, numbers = each.partition(".")
            spans.setdefault(process, []).extend(map(_span, numbers.split(",")))
    own = [names.parse_task_id(each.transactional_id) for each in job.winners]
    return any(
        first <= each.number <= last
        for each in own
        if each is not None
        for first, last in spans.get(each.process, ())
    )


def _spans(numbers: set[int]) -> Iterable[str]:
    """`{0, 1, 2, 7}` as "0-2", "7-7"."""
    for _, found in groupby(enumerate(sorted(numbers)), lambda each: each[1] - each[0]):
        span = [number for _, number in found]
        yield f"{span[0]}-{span[-1]}"


def _span(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last)
