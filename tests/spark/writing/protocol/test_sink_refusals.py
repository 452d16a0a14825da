"""Which jobs the entries of a sink's state refuse."""

from __future__ import annotations

import pytest

from drumlin.spark.writing.protocol import refusals
from drumlin.spark.writing.protocol.job import Job
from drumlin.spark.writing.protocol.messages import TaskIdentity, TaskMessage
from drumlin.spark.writing.protocol.names import TaskId
from drumlin.spark.writing.protocol.transactions import Opened

LEFT = [TaskId("sink", "run", f"{process:012x}", n) for process in (7, 8) for n in range(500)]
LEFT += [TaskId("sink", "run", f"{9:012x}", number) for number in (3, 1, 10)]


def job(*tasks: TaskId, run: str = "run") -> Job:
    messages = [
        TaskMessage(TaskIdentity("sink", "query", 4, run, n), opened=Opened(str(each), n, 0))
        for n, each in enumerate(tasks)
    ]
    return Job.of(messages, 4)


def test_what_is_open_is_told_in_a_few_words() -> None:
    entry = refusals.of_open(4, "run", LEFT)
    assert entry == "4:open:run:000000000007.0-499 000000000008.0-499 000000000009.1-1,3-3,10-10"


@pytest.mark.parametrize("task", [LEFT[0], LEFT[499], LEFT[500], *LEFT[-3:]])
def test_a_job_with_one_of_them_is_refused(task: TaskId) -> None:
    entries = [refusals.of_run(4, "another"), refusals.of_open(4, "run", LEFT)]
    other = task._replace(number=500)
    assert refusals.is_refused(job(other, task), entries)
    assert not refusals.is_refused(job(other), entries)


@pytest.mark.parametrize("number", [0, 2, 4, 9, 11])
def test_numbers_between_are_not_meant(number: int) -> None:
    entries = [refusals.of_open(4, "run", LEFT[-3:])]
    assert not refusals.is_refused(job(LEFT[-1]._replace(number=number)), entries)


@pytest.mark.parametrize("run", ["ru", "run1", "open", "n"])
def test_another_run_is_not_meant(run: str) -> None:
    entries = [refusals.of_open(4, "run", LEFT), refusals.of_run(4, "run")]
    assert not refusals.is_refused(job(LEFT[0]._replace(run=run), run=run), entries)


def test_a_job_and_a_run_are_refused_as_a_whole() -> None:
    told = job(LEFT[0])
    assert refusals.is_refused(told, [told.token])
    assert refusals.is_refused(told, refusals.of_runs([str(LEFT[0]), "not a task's"], 3))
    assert not refusals.is_refused(told, [job(LEFT[1]).token])
