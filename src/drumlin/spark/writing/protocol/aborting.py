"""After a failed job or a failed commit: abort what cannot come to count, finish what does.

Spark calls abort with the very messages whose commit has failed, and a commit that failed may
have decided. So what could be decided is aborted only after it is written down that it must not
be any more; whoever wakes up to decide it reads that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from drumlin.spark.writing.protocol import names
from drumlin.spark.writing.protocol.driver import (
    Job,
    abort_open,
    mark_done,
    open_besides,
    refused_run,
    write,
)
from drumlin.spark.writing.protocol.errors import NotRepairable, StateLost, WinnersLost
from drumlin.spark.writing.protocol.messages import SinkSettings, TaskIdentity, TaskMessage
from drumlin.spark.writing.protocol.reading import glance, last_state, take_over
from drumlin.spark.writing.protocol.requests import (
    FenceAll,
    FetchAnchor,
    InitDriver,
    ListOpen,
    PrepareTopic,
    Steps,
)
from drumlin.spark.writing.protocol.state import SinkState
from drumlin.spark.writing.protocol.winners import Fates, finish


def abort(messages: Sequence[TaskMessage | None], batch: int, settings: SinkSettings) -> Steps[int]:
    """Gives how many transactions were aborted.

    None among the messages is a task that has not come to its end: then no commit was asked for,
    and none ever will be with these messages.
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
        # Ours may have won, and who won is not written any more; nothing is open of it then.
        return (yield from abort_open(job))
    if state is not None and state.batch == batch:
        fates = yield from finish(job.sink, batch, state.winners)
        if not fates.lost:
            yield from mark_done(driver, job.sink, settings, state)
            return (yield from _fenced(job.besides(state.winners)))
    # Ours are no winners, but may become some: of a batch that is not decided, or not whole.
    if state is not None and {each.opened for each in state.winners} & set(job.opened):
        return 0
    refusing = (state or SinkState(job.query)).refusing(job.token)
    yield from write(driver, job.sink, settings, refusing)
    return (yield from _fenced(job.besides(())))


def abort_run(identity: TaskIdentity, settings: SinkSettings) -> Steps[int]:
    """After a job that failed before its commit: abort what any task of its run has left open.

    An earlier job of the run may have decided, as where a function in `foreachBatch` tries again:
    its winners are kept.
    """
    seen = yield from glance(identity.sink, settings, identity.batch)
    yield PrepareTopic(settings.decision_topic)
    _, state = yield from take_over(identity.sink, settings, is_known=seen is not None)
    kept = {each.transactional_id for each in state.winners} if state is not None else set()
    prefix = f"{names.PREFIX}{identity.sink}.{names.run_name(identity.run)}."
    found = yield ListOpen(prefix)
    return (yield from _fenced(tuple(each for each in found if each not in kept)))


def _fenced(transactional_ids: tuple[str, ...]) -> Steps[int]:
    if not transactional_ids:
        return 0
    aborted: int = yield FenceAll(transactional_ids)
    return aborted


def abort_sink(sink: str, settings: SinkSettings) -> Steps[tuple[Fates, tuple[str, ...]]]:
    """For an operator: finish what is decided, abort all else that is open, whoever writes it.

    The runs it belongs to must not decide any more: their queries fail and have to be restarted.

    Raises:
        WinnersLost: of what is decided, something has timed out; nothing was aborted then.
    """
    yield PrepareTopic(settings.decision_topic)
    seen = yield FetchAnchor(names.group_of(sink), settings.decision_topic, False)
    driver, state = yield from take_over(sink, settings, is_known=seen is not None)
    state = state or SinkState("")
    fates = Fates((), ())
    if not state.is_done and state.batch is not None:
        fates = yield from finish(sink, state.batch, state.winners)
        if fates.lost:
            raise WinnersLost(sink, state.batch, fates.lost)
    losers = yield from open_besides(sink, state.winners)
    if losers or not state.is_done:
        refusing = state.refusing(*_runs_of(losers, state.next_batch))
        yield from write(driver, sink, settings, replace(refusing, is_done=True, winners=()))
    yield from _fenced(losers)
    return fates, losers


def forget(sink: str, settings: SinkSettings) -> Steps[tuple[Fates, tuple[str, ...]]]:
    """For an operator: whatever batch comes next, of whatever query, is the sink's first.

    What is decided is committed as far as it can be, and all else that is open is aborted: nobody
    else would do that any more. Where the decision cannot be read, it is aborted as well. Gives
    what has become of winners, and what was aborted.

    Raises:
        Unfinished: of winners it is not known yet whether they are committed; nothing is forgotten.
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
            fates = Fates((), error.lost)  # of the others, all that could be committed is
    losers = yield from open_besides(sink, ())
    forgotten = SinkState("", is_forgotten=True)
    forgotten = forgotten.refusing(*_runs_of(losers, forgotten.next_batch))
    yield from write(driver, sink, settings, forgotten)
    yield from _fenced(losers)
    return fates, losers


def _runs_of(transactional_ids: Sequence[str], batch: int) -> list[str]:
    """What refuses the runs of these tasks, from a batch on."""
    told = map(names.parse_task_id, transactional_ids)
    return sorted({refused_run(batch, each.run) for each in told if each is not None})
