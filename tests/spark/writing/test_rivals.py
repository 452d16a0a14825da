"""Runs of one query that do not know of each other."""

from __future__ import annotations

import pytest

from drumlin.spark.writing.protocol.messages import TaskIdentity
from drumlin.spark.writing.protocol.sink_errors import Superseded
from drumlin.spark.writing.rivals import check_alone


def identity(run: str, batch: int, query: str = "q") -> TaskIdentity:
    return TaskIdentity("rivals", query, batch, run, 0)


def test_a_run_that_starts_may_find_its_batch_decided() -> None:
    check_alone(identity("start", 7), was_decided=True)
    check_alone(identity("start", 8), was_decided=False)


@pytest.mark.parametrize("was_decided", [False, True])
def test_a_run_that_goes_on_may_not(was_decided: bool) -> None:
    run = f"going-on-{was_decided}"
    check_alone(identity(run, 7), was_decided=was_decided)
    with pytest.raises(Superseded, match="another run has decided batch 8"):
        check_alone(identity(run, 8), was_decided=True)


def test_what_belongs_to_no_query_may_be_made_twice() -> None:
    for batch in (0, 0, 1):
        check_alone(identity("alone", batch, query=""), was_decided=True)
