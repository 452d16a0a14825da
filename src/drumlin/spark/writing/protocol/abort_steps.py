"""After a failed job or commit: aborts transactions that cannot win, and finishes those that won.

Spark calls abort with the messages whose commit has failed, and a failed commit may still have
decided. So before a transaction that may still win is aborted, a refusal of it, or of its job, must
be in the sink's log of decisions. A driver that would decide it later reads the refusal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from drumlin.spark.writing.protocol import names, refusals
from drumlin.spark.writing.protocol.content import NO_PLAN, Content
from drumlin.spark.writing.protocol.decisions import glance, last_state, take_over
from drumlin.spark.writing.protocol.driver import abort_open, mark_done, open_besides, write
from drumlin.spark.writing.protocol.job import Job
from drumlin.spark.writing.protocol.messages import SinkSettings, TaskIdentity, TaskMessage
from drumlin.spark.writing.protocol.requests import (
    FenceAll,
    FetchAnchor,
    InitDriver,
    PrepareTopic,
    Steps,
)
from drumlin.spark.writing.protocol.sink_errors import NotRepairable, StateLost, WinnersLost
from drumlin.spark.writing.protocol.state import SinkState
from drumlin.spark.writing.protocol.winners import Fates, finish


def abort(messages: Sequence[TaskMessage | None], batch: int, settings: SinkSettings) -> Steps[int]:
    """Abort a batch's transactions; returns how many were aborted.

    A message that is None stands for a task that did not finish. Then no commit was requested, and
    none ever will be with these messages.
    """
    told = [each for each in messages if each is not None]
    if not any(each.opened for each in told):
        return 0
    job = Job.of(told, batch)
    if len(told) < len(messages):
        return (yield from _fenced(job.besides(())))
    seen = yield from glance(job.sink, settings, batch)
    if seen is not None and seen.batch is not None and seen.batch > batch:
        return (yield from abort_open(job))
    yield PrepareTopic(settings.decision_topic)
    driver, state = yield from take_over(job.sink, settings, is_known=seen is not None)
    if state is not None and state.is_settled(batch):
        # Our transactions may have won, which the state no longer shows. Winners are not open.
        return (yield from abort_open(job))
    if state is not None and state.batch == batch:
        fates = yield from finish(job.sink, batch, state.winners)
        if not fates.lost:
            yield from mark_done(driver, job.sink, settings, state)
            return (yield from _fenced(job.besides(state.winners)))
    # Our transactions may still win: the batch is undecided, or some winners are lost.
    if state is not None and {each.opened for each in state.winners} & set(job.opened):
        return 0
    refusing = (state or SinkState(job.query)).refusing(job.token)
    yield from write(driver, job.sink, settings, refusing)
    return (yield from _fenced(job.besides(())))


def abort_run(identity: TaskIdentity, settings: SinkSettings) -> Steps[int]:
    """After a job that failed before its commit: abort the open transactions of its run's tasks.

    An earlier job of the run may have decided, for instance if a function in `foreachBatch` tries
    again. Its winners are kept. A later job may also decide, if this process is suspended: open
    transactions are refused before they are aborted.

    Raises:
        SinkError: nothing was aborted, for instance as another driver has continued meanwhile.
    """
    sink, run = identity.sink, names.run_name(identity.run)
    seen = yield from glance(sink, settings, identity.batch)
    yield PrepareTopic(settings.decision_topic)
    driver, state = yield from take_over(sink, settings, is_known=seen is not None)
    state = state or SinkState(identity.query)
    left = yield from open_besides(sink, state.winners, run)
    if left and not settings.is_for_once:  # no other job of such a sink can be decided
        tasks = [told for each in left if (told := names.parse_task_id(each)) is not None]
        refusing = state.refusing(refusals.of_open(state.next_batch, run, tasks))
        yield from write(driver, sink, settings, refusing)
    return (yield from _fenced(left))


def _fenced(transactional_ids: tuple[str, ...]) -> Steps[int]:
    if not transactional_ids:
        return 0
    aborted: int = yield FenceAll(transactional_ids)
    return aborted


def abort_sink(
    sink: str, settings: SinkSettings, *, may_lack_rows: bool = False
) -> Steps[tuple[Fates, tuple[str, ...]]]:
    """For an operator: finish the decided batch, and abort all other open transactions of the sink.

    The runs of the aborted transactions are refused: their queries fail and must be restarted.
    `may_lack_rows`: accept that lost rows of a decided batch stay lost, because the caller will
    compare the topic with its rows.

    Raises:
        WinnersLost, NotRepairable: some decided transactions have timed out, or are unknown;
            nothing was aborted.
    """
    yield PrepareTopic(settings.decision_topic)
    seen = yield FetchAnchor(names.group_of(sink), settings.decision_topic, False)
    driver, state = yield from take_over(sink, settings, is_known=seen is not None)
    state = state or SinkState("")
    fates = Fates((), ())
    if not state.is_done and state.batch is not None:
        try:
            fates = yield from finish(sink, state.batch, state.winners)
        except NotRepairable as error:
            if not may_lack_rows:
                raise
            fates = Fates((), error.lost)  # the others have been committed
        if fates.lost and not may_lack_rows:
            raise WinnersLost(sink, state.batch, fates.lost)
        if fates.lost:
            # A retry with the lost rows must not be told that they were written. So their batch
            # number is skipped, and an empty batch is recorded as the last one.
            empty = Content.of((), NO_PLAN)
            state = replace(state, batch=state.next_batch, content=empty, ends="")
    losers = yield from open_besides(sink, state.winners)
    if losers or not state.is_done:
        refusing = state.refusing(*refusals.of_runs(losers, state.next_batch))
        yield from write(driver, sink, settings, replace(refusing, is_done=True, winners=()))
    yield from _fenced(losers)
    return fates, losers


def forget(sink: str, settings: SinkSettings) -> Steps[tuple[Fates, tuple[str, ...]]]:
    """For an operator: let the next batch, of any query, be the sink's first.

    Decided transactions are committed as far as possible. All others that are open are aborted, as
    nothing else would abort them later. If the decision cannot be read, its transactions are
    aborted, too. Returns the fates of the winners, and the ids of the aborted transactions.

    Raises:
        Unfinished: it is not known yet whether the winners are committed; nothing is forgotten.
    """
    yield PrepareTopic(settings.decision_topic)
    driver = yield InitDriver(names.driver_id(sink))
    try:
        state = (yield from last_state(sink, settings)) or SinkState("")
    except StateLost:
        state = SinkState("")
    fates = Fates((), ())
    if not state.is_done and state.batch is not None:
        try:
            fates = yield from finish(sink, state.batch, state.winners)
        except NotRepairable as error:
            fates = Fates((), error.lost)  # the others have been committed
    losers = yield from open_besides(sink, ())
    forgotten = SinkState("", is_forgotten=True)
    forgotten = forgotten.refusing(*refusals.of_runs(losers, forgotten.next_batch))
    yield from write(driver, sink, settings, forgotten)
    yield from _fenced(losers)
    return fates, losers
