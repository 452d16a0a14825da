"""Every row once, whatever dies, sleeps and wakes: some hundred seeds; `play` takes thousands."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Generator
from typing import Any

import pytest

from drumlin.spark.writing.protocol import abort_steps, driver, task
from drumlin.spark.writing.protocol.messages import TaskIdentity, TaskMessage
from drumlin.spark.writing.protocol.own_ids import OwnIds
from drumlin.spark.writing.protocol.requests import (
    Append,
    CommitAll,
    FenceAll,
    FindRecord,
    InitDriver,
)
from drumlin.spark.writing.protocol.sink_errors import (
    Fenced,
    NotDecided,
    RequestFailed,
    SinkError,
    Superseded,
)
from rig.depth import first
from spark.sink_twin.cluster import LATER, Cluster, ProtocolBroken, WriteRows
from spark.sink_twin.mutations import (
    ABORTED_IN_EPOCH,
    FOUND_BY,
    MUTATIONS,
    REFUSAL_IS_NOT_READ,
    applied,
)
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


@pytest.mark.parametrize("bug", first(5, MUTATIONS))
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
        self.kinds: list[type] = []
        self.result: Any = None

    def _go_on(self) -> None:
        self.kinds.append(type(self.request))
        try:
            answer = self._cluster.perform(self.request)
        except RequestFailed as error:
            self.request = self._steps.throw(error)
            return
        self._cluster.settle()
        if answer is not LATER:
            self.request = self._steps.send(answer)

    def take(self, count: int) -> None:
        """So many requests."""
        for _ in range(count):
            self._go_on()

    def run(self, before: type | None = None) -> Any:
        """Up to the next request of a kind, or to the end."""
        try:
            while before is None or not isinstance(self.request, before):
                self._go_on()
        except StopIteration as stop:
            self.result = stop.value
        return self.result


def one_task(cluster: Cluster, run: str = "run", batch: int = 0) -> TaskMessage:
    who, ids = TaskIdentity(SINK, QUERY, batch, run, 0), OwnIds(f"{batch:012x}")

    def steps() -> Generator[Any, Any, TaskMessage]:
        begun = yield from task.begin(who, SETTINGS)
        assert not isinstance(begun, TaskMessage)
        opened = yield from task.open_transaction(who, SETTINGS, ids, begun)
        yield WriteRows(opened, (1, 2))
        message = TaskMessage(who, False, opened, 2, "3")
        return (yield from task.finish(who, SETTINGS, ids, message, begun))

    message: TaskMessage = Program(cluster, steps()).run()
    return message


FOR_ONCE = dataclasses.replace(SETTINGS, is_for_once=True)


def commit_for_once(cluster: Cluster, messages: list[TaskMessage]) -> Program:
    return Program(cluster, driver.commit(messages, 0, FOR_ONCE, None, lambda: 0))


def test_a_write_for_once_searches_for_nothing_and_leaves_nothing() -> None:
    cluster = Cluster()
    commit = commit_for_once(cluster, [one_task(cluster)])
    commit.run()
    assert FindRecord not in commit.kinds
    assert cluster.visible == {1: 1, 2: 1}
    cluster.compact()
    assert [each.value for each in cluster.log.values()] == [None]


@pytest.mark.parametrize("wakes", [False, True])
def test_a_write_for_once_is_written_or_not_wherever_its_commit_stops(wakes: bool) -> None:
    steps = commit_for_once(cluster := Cluster(), [one_task(cluster)])
    steps.run()
    for stop in range(len(steps.kinds)):
        cluster = Cluster()
        messages = [one_task(cluster)]
        commit = commit_for_once(cluster, messages)
        commit.take(stop)
        Program(cluster, abort_steps.abort(messages, 0, FOR_ONCE)).run()
        seen = dict(cluster.visible)
        assert seen in ({}, {1: 1, 2: 1})
        with contextlib.suppress(SinkError):
            if wakes:
                commit.run()
        assert cluster.visible == seen
        assert "Ongoing" not in {each.state for each in cluster.ids.values()}


def asleep_before_they_act(cluster: Cluster, batch: int = 0) -> tuple[Program, Program]:
    """A commit that has not fenced yet, and the abort of the same tasks, which aborts next."""
    messages = [one_task(cluster, batch=batch)]
    commit = Program(cluster, driver.commit(messages, batch, SETTINGS, None, lambda: 0))
    commit.run(before=InitDriver)
    abort = Program(cluster, abort_steps.abort(messages, batch, SETTINGS))
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


def test_what_was_aborted_does_not_repair_what_another_run_has_decided() -> None:
    cluster = Cluster()
    commit, abort = asleep_before_they_act(cluster)
    other = [one_task(cluster, "another run")]
    killed = Program(cluster, driver.commit(other, 0, SETTINGS, None, lambda: 0))
    killed.run(before=CommitAll)
    assert other[0].opened is not None
    cluster.time_out(other[0].opened.transactional_id)
    cluster.settle()
    with pytest.raises(NotDecided, match="aborted meanwhile"):
        commit.run()
    abort.run()
    assert not cluster.visible


def test_who_marks_a_batch_done_keeps_what_was_refused_meanwhile() -> None:
    cluster = Cluster()
    first = Program(cluster, driver.commit([one_task(cluster)], 0, SETTINGS, None, lambda: 0))
    first.run(before=CommitAll)
    first.run(before=Append)  # to mark it done
    commit, abort = asleep_before_they_act(cluster, batch=1)
    first.run()
    with pytest.raises(NotDecided, match="aborted meanwhile"):
        commit.run()
    abort.run()
    assert set(cluster.batches) == {0}


def test_a_commit_that_is_asked_for_twice_aborts_nothing_that_won() -> None:
    cluster = Cluster()
    messages = [one_task(cluster)]
    first, second = (
        Program(cluster, driver.commit(messages, 0, SETTINGS, None, lambda: 0)) for _ in range(2)
    )
    first.run(before=Append)
    second.run(before=CommitAll)
    with pytest.raises(Fenced):
        first.run()
    second.run()
    assert cluster.visible == {1: 1, 2: 1}


def commit_twice(cluster: Cluster) -> None:
    """Another driver has decided a batch, and not marked it done when its successor comes."""
    first = Program(cluster, driver.commit([one_task(cluster)], 0, SETTINGS, None, lambda: 0))
    epoch = first.run().driver_epoch
    messages = [one_task(cluster, batch=1)]
    other = Program(cluster, driver.commit(messages, 1, SETTINGS, None, lambda: 0))
    other.run(before=CommitAll)
    other.run(before=Append)
    again = Program(cluster, driver.commit(messages, 1, SETTINGS, None, lambda: 0, epoch))
    assert again.run().was_decided
    assert not other.run().is_marked_done
    assert cluster.visible == {1: 2, 2: 2}


def test_who_is_in_its_epoch_aborts_nothing_that_another_has_decided() -> None:
    commit_twice(Cluster())
    with applied(ABORTED_IN_EPOCH), pytest.raises(ProtocolBroken, match="its id is taken"):
        commit_twice(Cluster())


@pytest.mark.parametrize("is_fenced", [False, True])
def test_who_is_in_its_epoch_fences_only_if_it_was_fenced(is_fenced: bool) -> None:
    cluster = Cluster()
    first = Program(cluster, driver.commit([one_task(cluster)], 0, SETTINGS, None, lambda: 0))
    epoch = first.run().driver_epoch
    messages = [one_task(cluster, batch=1)]
    if is_fenced:
        cluster.perform(InitDriver(epoch.driver.transactional_id))
    second = Program(cluster, driver.commit(messages, 1, SETTINGS, None, lambda: 0, epoch))
    assert second.run().is_marked_done
    assert (InitDriver in second.kinds) == is_fenced
    assert cluster.visible == {1: 2, 2: 2}


def test_what_was_refused_is_forgotten_when_its_batch_is_done() -> None:
    cluster = Cluster()
    commit, abort = asleep_before_they_act(cluster)
    abort.run()
    for batch in (0, 1):
        messages = [one_task(cluster, "another run", batch)]
        Program(cluster, driver.commit(messages, batch, SETTINGS, None, lambda: 0)).run()
        note = json.loads(cluster.groups[f"drumlin.{SINK}", SETTINGS.decision_topic][1][1])
        assert note["done"]
        assert not note["more"]
    with pytest.raises(Superseded):
        commit.run()


def test_else_the_abort_would_take_its_winners() -> None:
    with applied(REFUSAL_IS_NOT_READ):
        commit, abort = asleep_before_they_act(Cluster())
        commit.run(before=CommitAll)
        with pytest.raises(ProtocolBroken, match="has won"):
            abort.run()
