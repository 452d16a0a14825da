"""What a proof of the sink has been through is counted rightly: else it might meet nothing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from spark.sink_proof.journal import Journal

_TASK = {"run": "one", "stage": 3, "partition": 0}


def _commit(journal: Journal, number: str, run: str, requests: int, *, ends: bool = True) -> None:
    """One that makes so many requests, of which the last is not answered unless it ends."""
    journal.note("commit begun", commit=number, run=run, batch=0)
    names = ["InitDriver", "CommitDriver", "CommitAll", "CommitDriver"][:requests]
    for count, name in enumerate(names, 1):
        journal.note("asked", commit=number, request=name)
        if ends or count < requests:
            journal.note("answered", commit=number, request=name)
    if ends:
        journal.note("commit ended", commit=number, run=run, error=None)


def test_commits_that_were_cut_are_told_by_how_far_they_came(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    _commit(journal, "whole", "one", 4)
    for number, requests in enumerate((0, 1, 2, 3, 4)):
        _commit(journal, str(number), "one", requests, ends=False)
    seen = journal.tally()
    assert seen.cut == Counter(undecided=2, deciding=1, decided=2)
    assert (seen.failed, seen.late) == (0, 0)


def test_a_run_that_was_overtaken_is_late(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for number, run in enumerate(("one", "one", "two", "one", "two", "three")):
        _commit(journal, str(number), run, 4)
    assert journal.tally().late == 1


def test_a_twin_has_written_while_the_first_attempt_hung(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for partition, until in enumerate((2e10, 0.0)):
        task = {**_TASK, "partition": partition}
        journal.note("task begun", **task, attempt=0)
        journal.note("task wrote", **task, attempt=0)
        journal.note("task hangs", **task, attempt=0, until=until)
        journal.note("task begun", **task, attempt=1)
        journal.note("task wrote", **task, attempt=1)
    seen = journal.tally()
    assert (seen.attempts, seen.retries, seen.repeated, seen.twins) == (4, 2, 0, 1)


def test_a_stage_that_is_repeated_counts_its_attempts_anew(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for attempt in (0, 1, 0):
        journal.note("task begun", **_TASK, attempt=attempt)
    assert journal.tally().repeated == 1


def test_aborts_after_a_commit_have_the_messages_of_all_tasks(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.note("abort begun", run="one", batch=1, is_whole=True)
    journal.note("abort begun", run="one", batch=2, is_whole=False)
    assert journal.tally().aborts == 1
