"""What is too rare for seeds, step by step: each story holds, and finds the bug it is about."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from drumlin.spark.writing.protocol import abort_steps, driver, task
from drumlin.spark.writing.protocol.content import Plan
from drumlin.spark.writing.protocol.messages import (
    CommitReport,
    SourceOffsets,
    TaskIdentity,
    TaskMessage,
)
from drumlin.spark.writing.protocol.own_ids import OwnIds
from drumlin.spark.writing.protocol.requests import CommitDriver, ListOpen
from drumlin.spark.writing.protocol.sink_errors import (
    BatchDiffers,
    NotDecided,
    NotRepairable,
    SinkError,
    StateLost,
    WinnersLost,
)
from spark.sink_twin import mutations
from spark.sink_twin.cluster import EXPIRATION_S, TASK_TIMEOUT_S, Cluster, WriteRows
from spark.sink_twin.mutations import Mutation, applied
from spark.sink_twin.queries import QUERY, SETTINGS, SINK
from spark.sink_twin.test_sink_twin import Program


class Tale(Program):
    """Steps that can fall asleep behind a request, and tell what they have asked for."""

    def __init__(self, cluster: Cluster, steps: Generator[Any, Any, Any]) -> None:
        self.asked: list[type] = []
        self.is_over = False
        self.error: SinkError | None = None
        super().__init__(cluster, steps)

    def _go_on(self) -> None:
        self.asked.append(type(self.request))
        super()._go_on()

    def live(self, count: int = 100) -> None:
        """So many requests, or to the end, whether that is a result or an error."""
        for _ in range(0 if self.is_over else count):
            try:
                self._go_on()
            except (StopIteration, SinkError) as end:
                self.is_over = True
                self.error = end if isinstance(end, SinkError) else None
                return

    def run_behind(self, kind: type) -> Tale:
        self.run(before=kind)
        while isinstance(self.request, kind):
            self._go_on()
        return self


def wrote(
    cluster: Cluster, process: int, run: str = "run", batch: int = 0, **more: Any
) -> TaskMessage:
    """A task that is through, in a process of its own."""
    who = TaskIdentity(SINK, QUERY, batch, run, **{"partition": 0, **more})
    ids = OwnIds(f"{process:012x}")

    def steps() -> Generator[Any, Any, TaskMessage]:
        begun = yield from task.begin(who, SETTINGS)
        if isinstance(begun, TaskMessage):
            return replace(begun, rows=1, checksum=str(who.partition))
        opened = yield from task.open_transaction(who, SETTINGS, ids, begun)
        yield WriteRows(opened, (who.partition,))
        message = TaskMessage(who, False, opened, 1, str(who.partition))
        return (yield from task.finish(who, SETTINGS, ids, message, begun))

    message: TaskMessage = Program(cluster, steps()).run()
    return message


def committing(cluster: Cluster, *messages: TaskMessage) -> Tale:
    batch = messages[0].identity.batch
    return Tale(cluster, driver.commit(messages, batch, SETTINGS, None, cluster.clock_ms))


def committed(cluster: Cluster, *messages: TaskMessage) -> CommitReport:
    report: CommitReport = committing(cluster, *messages).run()
    return report


def decided(cluster: Cluster, *messages: TaskMessage) -> Tale:
    """A commit that has decided, and falls asleep."""
    return committing(cluster, *messages).run_behind(CommitDriver)


def is_open(cluster: Cluster) -> bool:
    return any(each.state == "Ongoing" for each in cluster.ids.values())


# -- losers, and those who are none ----------------------------------------------------------------


def losers_may_still_win() -> None:
    cluster = Cluster()
    first, second = wrote(cluster, 1, "run1"), wrote(cluster, 2, "run2")
    sleeps = decided(cluster, first)  # and it holds the second for a loser
    assert first.opened is not None
    cluster.time_out(first.opened.transactional_id)
    cluster.settle()
    goes_on = decided(cluster, second)  # all was lost: the second has won now
    with pytest.raises(WinnersLost):
        sleeps.run()
    goes_on.run()
    assert cluster.visible == {0: 1}


def a_run_s_winners_are_kept() -> None:
    cluster = Cluster()
    decided(cluster, wrote(cluster, 1))  # and it dies
    left = wrote(cluster, 2, batch=1)
    identity = TaskIdentity(SINK, QUERY, 0, "run", 0)
    assert Program(cluster, abort_steps.abort_run(identity, SETTINGS)).run() == 1
    again = wrote(cluster, 3, "run2")
    assert again.found_decided
    assert committed(cluster, again).was_decided
    assert left.opened is not None
    assert cluster.visible == {0: 1}
    assert not is_open(cluster)


def what_a_job_has_left_is_refused_first() -> None:
    """A later job of the run decides, wherever the abort of what an earlier one left has slept."""
    for slept, went_on in product(range(12), range(16)):
        cluster = Cluster()
        committed(cluster, wrote(cluster, 1))
        wrote(cluster, 2, batch=1, partition=1)
        identity = TaskIdentity(SINK, QUERY, 1, "run", 0)
        sweep = Tale(cluster, abort_steps.abort_run(identity, SETTINGS))
        sweep.live(slept)
        later = wrote(cluster, 3, batch=1, partition=1)
        commit = committing(cluster, later)
        commit.live(went_on)
        sweep.live()
        commit.live()
        if commit.error is not None:
            Tale(cluster, abort_steps.abort([later], 1, SETTINGS)).live()
            assert cluster.visible in ({0: 1}, {0: 1, 1: 1})
            committed(cluster, wrote(cluster, 4, batch=1, partition=1))
        assert cluster.visible == {0: 1, 1: 1}, (slept, went_on)


@pytest.mark.parametrize("seconds", [0, 11])
def test_a_repeated_stage_leaves_nothing_open(seconds: int) -> None:
    cluster = Cluster()
    committed(cluster, wrote(cluster, 1, task_id=1))
    # Its second attempt counts from 0 again: only numbers of tasks tell, or nothing at all.
    wrote(cluster, 2, batch=1, task_id=2)
    cluster.pass_time(seconds)
    messages = [wrote(cluster, 3, batch=1, task_id=4)]
    if not seconds:
        messages.append(wrote(cluster, 4, batch=1, partition=1, task_id=3 + 3))
    assert committed(cluster, *messages).aborted == 1
    assert not is_open(cluster)


def test_twins_are_looked_for_where_there_may_be_some() -> None:
    cluster = Cluster()
    committed(cluster, wrote(cluster, 1, task_id=1))
    wrote(cluster, 2, batch=1, task_id=2, attempt=1)
    assert committed(cluster, wrote(cluster, 3, batch=1, task_id=1, has_twins=True)).aborted == 1
    assert not is_open(cluster)


def test_where_nothing_says_so_they_are_not_looked_for_with_each_batch() -> None:
    cluster = Cluster()
    for batch in range(3):
        commit = committing(cluster, wrote(cluster, batch, batch=batch, task_id=batch))
        commit.run()
        cluster.pass_time(4)
        assert (ListOpen in commit.asked) == (batch == 0)


# -- decisions that are gone -----------------------------------------------------------------------


def a_deleted_decision_is_missed() -> None:
    cluster = Cluster()
    committed(cluster, wrote(cluster, 1))
    cluster.delete_topic()
    for run in range(2, 5):
        message = wrote(cluster, run, f"run{run}")
        with pytest.raises(StateLost, match="was decided"):
            committed(cluster, message)
        # Spark calls abort then, which is not to wipe the trace.
        with pytest.raises(StateLost, match="was decided"):
            Program(cluster, abort_steps.abort([message], 0, SETTINGS)).run()
    assert cluster.visible == {0: 1}
    Program(cluster, abort_steps.forget(SINK, SETTINGS)).run()
    assert not is_open(cluster)
    cluster.batches.clear()  # an operator has said that it may be decided again
    committed(cluster, wrote(cluster, 9, "run9"))
    assert cluster.visible == {0: 2}


def test_what_a_coordinator_has_lost_is_not_taken_for_committed() -> None:
    cluster = Cluster()
    message = wrote(cluster, 1)
    decided(cluster, message)
    assert message.opened is not None
    cluster.ids[message.opened.transactional_id].state = "Empty"
    with pytest.raises(NotRepairable, match="has lost"):
        committed(cluster, wrote(cluster, 2, "run2"))
    assert not cluster.visible


# -- a query that rests ----------------------------------------------------------------------------


def a_query_goes_on_after_weeks() -> None:
    """The last decision before a rest has no next one that could say that it is done."""
    for rest_s in (60.0, 2 * EXPIRATION_S):
        cluster = Cluster()
        committed(cluster, wrote(cluster, 1))
        cluster.pass_time(rest_s)
        cluster.compact()
        committed(cluster, wrote(cluster, 2, "run2", batch=1, partition=1))
        assert cluster.visible == {0: 1, 1: 1}


# -- a sink that is forgotten ----------------------------------------------------------------------


def what_has_won_is_committed_before_it_is_forgotten() -> None:
    cluster = Cluster()
    wrote(cluster, 2, "run2", partition=7)
    sleeps = decided(cluster, wrote(cluster, 1))
    fates, aborted = Program(cluster, abort_steps.forget(SINK, SETTINGS)).run()
    assert (len(fates.committed), len(aborted)) == (1, 1)
    assert not is_open(cluster)
    sleeps.run()  # finds its winners committed, and may not mark anything
    assert cluster.visible == {0: 1}


def test_a_commit_that_wakes_reads_that_its_sink_is_forgotten() -> None:
    cluster = Cluster()
    committed(cluster, wrote(cluster, 1))
    sleeps = committing(cluster, wrote(cluster, 2, batch=1))
    forgets = Tale(cluster, abort_steps.forget(SINK, SETTINGS)).run_behind(CommitDriver)
    with pytest.raises(NotDecided, match="aborted meanwhile"):
        sleeps.run()
    forgets.run()
    assert cluster.visible == {0: 1}
    assert not is_open(cluster)


def test_where_the_decision_cannot_be_read_all_is_aborted() -> None:
    cluster = Cluster()
    decided(cluster, wrote(cluster, 1))
    cluster.log.clear()
    cluster.decided, cluster.undone, cluster.batches = set(), set(), {}  # nothing remembers them
    with pytest.raises(StateLost):
        committed(cluster, wrote(cluster, 2, "run2"))
    Program(cluster, abort_steps.forget(SINK, SETTINGS)).run()
    assert not is_open(cluster)
    committed(cluster, wrote(cluster, 3, "run3"))
    assert cluster.visible == {0: 1}


# -- another batch under the same number -----------------------------------------------------------


def came(cluster: Cluster, process: int, run: str, rows: int, batch: int = 0) -> TaskMessage:
    """A task that finds so many rows, whether it writes them or not."""
    message = wrote(cluster, process, run, batch)
    return replace(message, rows=rows, checksum=f"{rows:x}")


def planned(cluster: Cluster, message: TaskMessage, plan: Plan, **settings: Any) -> CommitReport:
    """Committed by a query that knows how far its batch goes."""
    source = SourceOffsets(plan=plan)
    batch, given = message.identity.batch, replace(SETTINGS, **settings)
    steps = driver.commit([message], batch, given, source, cluster.clock_ms)
    report: CommitReport = Program(cluster, steps).run()
    return report


A, B = Plan('{"t":{"0":5}}', 1), Plan('{"t":{"0":9}}', 2)


def test_other_rows_under_the_same_number_are_another_batch() -> None:
    cluster = Cluster()
    committed(cluster, came(cluster, 1, "run1", 5))
    with pytest.raises(BatchDiffers, match=r"of query query was decided with 5 .* now has 9 rows"):
        committed(cluster, came(cluster, 2, "run2", 9))
    again = committed(cluster, came(cluster, 3, "run3", 5))
    assert (again.was_decided, again.doubt) == (True, "")
    assert cluster.visible == {0: 1}


def test_what_was_decided_is_committed_whatever_comes() -> None:
    cluster = Cluster()
    decided(cluster, came(cluster, 1, "run1", 5))  # and it dies
    with pytest.raises(BatchDiffers):
        committed(cluster, came(cluster, 2, "run2", 9))
    assert cluster.visible == {0: 1}
    assert not is_open(cluster)


@pytest.mark.parametrize("rows_may_differ", [False, True])
def test_other_rows_of_the_same_plan_are_the_same_batch(rows_may_differ: bool) -> None:
    cluster = Cluster()
    planned(cluster, came(cluster, 1, "run1", 5), A)
    doubt = planned(cluster, came(cluster, 2, "run2", 6), A).doubt
    assert "other rows, from the same input" in doubt
    # Of another plan they are not, whatever an option says of rows.
    settings = {"rows_may_differ": rows_may_differ}
    with pytest.raises(BatchDiffers, match=r'5 rows .*up to .*"0":5.* 9 rows .*up to .*"0":9'):
        planned(cluster, came(cluster, 3, "run3", 9), B, **settings)
    # The same rows change nothing, planned when and how far they may.
    assert not planned(cluster, came(cluster, 4, "run4", 5), B, **settings).doubt


def test_where_no_plan_is_known_an_option_lets_rows_differ() -> None:
    cluster = Cluster()
    planned(cluster, came(cluster, 1, "run1", 5), A)
    settings = replace(SETTINGS, rows_may_differ=True)
    steps = driver.commit([came(cluster, 2, "run2", 6)], 0, settings, None, cluster.clock_ms)
    assert "as rowsMayDiffer allows" in Program(cluster, steps).run().doubt


def what_is_decided_again_is_told_as_it_is_now() -> None:
    cluster = Cluster()
    first = came(cluster, 1, "run1", 5)
    decided(cluster, first)  # and it dies
    assert first.opened is not None
    cluster.time_out(first.opened.transactional_id)
    cluster.settle()
    committed(cluster, came(cluster, 2, "run2", 9))  # nobody has seen the 5
    try:
        committed(cluster, came(cluster, 3, "run3", 9))
    except BatchDiffers as error:
        raise AssertionError(error) from error


def test_a_batch_of_an_earlier_version_is_taken_by_its_number_and_that_is_said() -> None:
    """Its decision does not say what it was."""
    cluster = Cluster()
    committed(cluster, came(cluster, 1, "run1", 5))
    _forget_contents(cluster)
    report = committed(cluster, came(cluster, 2, "run2", 9))
    assert "an earlier version of drumlin decided it" in report.doubt
    committed(cluster, came(cluster, 3, "run3", 5, batch=1))
    with pytest.raises(BatchDiffers):
        committed(cluster, came(cluster, 4, "run4", 9, batch=1))


def _forget_contents(cluster: Cluster) -> None:
    """Note and record as the version before wrote them."""
    group = f"drumlin.{SINK}", SETTINGS.decision_topic
    before, (offset, note) = cluster.groups[group]
    told = {name: each for name, each in json.loads(note).items() if name != "content"}
    cluster.groups[group] = before, (offset, json.dumps(told))
    for record in cluster.log.values():
        if record.value is not None:
            found = json.loads(record.value)
            del found["content"], found["ends"]
            record.value = json.dumps(found).encode()


# -- time ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("share", "was_close"), [(0.4, False), (0.6, True)])
def test_a_commit_tells_how_close_the_time_out_was(share: float, was_close: bool) -> None:
    cluster = Cluster()
    message = wrote(cluster, 1)
    cluster.pass_time(TASK_TIMEOUT_S * share)
    report = committed(cluster, message)
    assert report.open_ms == pytest.approx(TASK_TIMEOUT_S * share * 1000)
    assert report.was_close == was_close


STORIES: dict[Callable[[], None], Mutation] = {
    losers_may_still_win: mutations.LOSERS_ARE_ABORTED_FIRST,
    a_run_s_winners_are_kept: mutations.A_RUN_S_WINNERS_ARE_ABORTED,
    what_a_job_has_left_is_refused_first: mutations.WHAT_IS_LEFT_IS_NOT_REFUSED,
    a_deleted_decision_is_missed: mutations.THE_DRIVERS_ID_IS_NOT_LOOKED_AT,
    what_is_decided_again_is_told_as_it_is_now: mutations.WHAT_IS_DECIDED_AGAIN_IS_TOLD_AS_IT_WAS,
    what_has_won_is_committed_before_it_is_forgotten: mutations.WHAT_HAS_WON_IS_FORGOTTEN,
    a_query_goes_on_after_weeks: mutations.DONE_IS_LEFT_TO_THE_NEXT_DECISION,
}


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_story_holds(story: Callable[[], None]) -> None:
    story()


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_its_bug_is_found(story: Callable[[], None]) -> None:
    with (
        applied(STORIES[story]),
        pytest.raises((AssertionError, pytest.fail.Exception, WinnersLost, NotRepairable)),
    ):
        story()
