"""Every row once, whatever dies, sleeps and wakes: some hundred seeds; `play` takes thousands."""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest

from drumlin.spark.sink.protocol import aborting, driver, task
from drumlin.spark.sink.protocol.errors import NotDecided
from drumlin.spark.sink.protocol.messages import TaskIdentity, TaskMessage
from drumlin.spark.sink.protocol.own_ids import OwnIds
from drumlin.spark.sink.protocol.requests import CommitAll, FenceAll, InitDriver
from spark.sink_twin.cluster import LATER, Cluster, ProtocolBroken, WriteRows
from spark.sink_twin.mutations import FOUND_BY, MUTATIONS, REFUSAL_IS_NOT_READ, applied
from spark.sink_twin.play import play
from spark.sink_twin.queries import QUERY, SETTINGS, SINK

SEEDS = int(os.environ.get("DRUMLIN_SINK_SEEDS", "200"))
_SEEDS_FOR_A_BUG = 400


@pytest.mark.parametrize("share", range(4))
def test_every_row_is_written_once(share: int) -> None:
    for seed in range(share, SEEDS, 4):
        try:
            play(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


@pytest.mark.parametrize("bug", MUTATIONS)
def test_a_bug_is_found(bug: str) -> None:
    with applied(MUTATIONS[bug]), pytest.raises(AssertionError):
        for seed in (FOUND_BY[bug], *range(_SEEDS_FOR_A_BUG)):
            play(seed)


class Program:
    """Steps on a cluster, taken as far as a test wants."""

    def __init__(self, cluster: Cluster, steps: Generator[Any, Any, Any]) -> None:
        self._cluster = cluster
        self._steps = steps
        self.request = next(steps)
        self.result: Any = None

    def run(self, before: type | None = None) -> Any:
        """Up to the next request of a kind, or to the end."""
        try:
            while before is None or not isinstance(self.request, before):
                answer = self._cluster.perform(self.request)
                self._cluster.settle()
                if answer is not LATER:
                    self.request = self._steps.send(answer)
        except StopIteration as stop:
            self.result = stop.value
        return self.result


def one_task(cluster: Cluster) -> TaskMessage:
    who, ids = TaskIdentity(SINK, QUERY, 0, "run", 0), OwnIds("0" * 12)

    def steps() -> Generator[Any, Any, TaskMessage]:
        begun = yield from task.begin(who, SETTINGS)
        assert not isinstance(begun, TaskMessage)
        opened = yield from task.open_transaction(who, SETTINGS, ids, begun)
        yield WriteRows(opened, (1, 2))
        message = TaskMessage(who, False, opened, 2, "3")
        return (yield from task.finish(who, SETTINGS, ids, message, begun))

    message: TaskMessage = Program(cluster, steps()).run()
    return message


def asleep_before_they_act(cluster: Cluster) -> tuple[Program, Program]:
    """A commit that has not fenced yet, and the abort of the same tasks, which aborts next."""
    messages = [one_task(cluster)]
    commit = Program(cluster, driver.commit(messages, 0, SETTINGS, None, lambda: 0))
    commit.run(before=InitDriver)
    abort = Program(cluster, aborting.abort(messages, 0, SETTINGS))
    abort.run(before=FenceAll)
    return commit, abort


def test_a_commit_that_wakes_reads_that_it_was_aborted() -> None:
    cluster = Cluster()
    commit, abort = asleep_before_they_act(cluster)
    with pytest.raises(NotDecided, match="aborted meanwhile"):
        commit.run()
    abort.run()
    assert not cluster.visible
    assert not cluster.batches


def test_else_the_abort_would_take_its_winners() -> None:
    with applied(REFUSAL_IS_NOT_READ):
        commit, abort = asleep_before_they_act(Cluster())
        commit.run(before=CommitAll)
        with pytest.raises(ProtocolBroken, match="has won"):
            abort.run()
