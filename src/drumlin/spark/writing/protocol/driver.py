"""The driver's side: one decision per batch, after which the winners are committed.

A driver fences all others before it reads the last decision, and its own decision goes through only
if no other driver has fenced it since. So the decisions of a sink are totally ordered, and each is
made with knowledge of the one before. docs/exactly-once-sink.md gives the reason for each step.

A commit must never abort an undecided transaction unless it knows that it will not decide it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from drumlin.spark.writing.protocol import names
from drumlin.spark.writing.protocol.content import NO_PLAN, described
from drumlin.spark.writing.protocol.decisions import (
    check_beginning,
    check_query,
    glance,
    recorded_ends,
    superseded,
    take_over,
)
from drumlin.spark.writing.protocol.job import Job
from drumlin.spark.writing.protocol.messages import (
    CommitReport,
    SinkSettings,
    SourceOffsets,
    TaskMessage,
)
from drumlin.spark.writing.protocol.refusals import is_refused
from drumlin.spark.writing.protocol.requests import (
    Append,
    CommitDriver,
    Describe,
    FenceAll,
    ListOpen,
    PrepareTopic,
    SendOffsets,
    Steps,
)
from drumlin.spark.writing.protocol.sink_errors import (
    LONGER,
    BatchDiffers,
    DecisionUnknown,
    Fenced,
    NotDecided,
    NotRepairable,
    RequestFailed,
    SinkError,
    Superseded,
    WinnersLost,
)
from drumlin.spark.writing.protocol.state import DriverEpoch, SinkState
from drumlin.spark.writing.protocol.transactions import Opened, Winner
from drumlin.spark.writing.protocol.winners import Fates, finish, is_open, missing


def now_ms() -> int:
    """The wall clock."""
    return time.time_ns() // 1_000_000


def commit(
    messages: Sequence[TaskMessage],
    batch: int,
    settings: SinkSettings,
    source: SourceOffsets | None = None,
    clock: Callable[[], int] = now_ms,
    epoch: DriverEpoch | None = None,
) -> Steps[CommitReport]:
    """Decide a batch and commit it; or complete an earlier decision on it.

    `epoch` is the driver's epoch from the sink's last commit in this process, if there was one.

    Raises:
        SinkError: see sink_errors.py. Repeating the batch is the remedy, except after NotRepairable
            and StateLost.
    """
    job = Job.of(messages, batch, NO_PLAN if source is None else source.plan)
    if epoch is not None:
        report = yield from _commit_in_epoch(epoch, job, settings, source, clock)
        if report is not None:
            return report
    # A driver with an outdated batch must not fence the current one.
    seen = yield from glance(job.sink, settings, batch)
    if seen is not None and seen.batch is not None and seen.batch > batch:
        yield from abort_open(job)
        raise superseded(job.sink, seen, batch)
    try:
        yield PrepareTopic(settings.decision_topic)
    except RequestFailed:
        # Without the topic no decision can name our transactions. Readers must not wait for their
        # timeout.
        yield FenceAll(job.besides(()))
        raise
    driver, state = yield from take_over(job.sink, settings, is_known=seen is not None)
    try:
        check(job, settings, state)
        if state is not None and state.batch == batch:
            decision = yield from _decided_before(job, settings, state)
        else:
            decision = yield from _first_decision(job, state, clock())
        if decision.needs_writing:
            may_have_losers = job.may_have_losers(state, settings, clock())
            decision = yield from _checked(decision, job, clock, may_have_losers=may_have_losers)
            yield from write(driver, job.sink, settings, decision.state, source)
    except (SinkError, ValueError) as error:
        # A driver that has fenced us may decide our transactions.
        if not isinstance(error, DecisionUnknown | Fenced):
            yield FenceAll(job.besides(() if state is None else state.winners))
        if isinstance(error, Fenced):
            raise Fenced(
                f"sink {job.sink!r}: another driver, which began later, writes batch {batch} at "
                "the same time, and continues. This commit decides nothing; the next run of the "
                f"batch finds the decision ({error})"
            ) from error
        raise
    return (yield from _complete(driver, job, settings, decision, clock))


def _commit_in_epoch(
    epoch: DriverEpoch,
    job: Job,
    settings: SinkSettings,
    source: SourceOffsets | None,
    clock: Callable[[], int],
) -> Steps[CommitReport | None]:
    """Decide without a new fence. None if that is impossible; nothing was decided or aborted then.

    Another driver may have fenced this one, and may even have decided these transactions. At the
    latest that shows when the decision is refused. Until then they must not be aborted.
    """
    driver, state = epoch
    if any(message.found_decided for message in job.messages):
        return None
    try:
        check(job, settings, state)
        if state.batch == job.batch:
            return None
        yield PrepareTopic(settings.decision_topic)  # else the append could auto-create the topic
        decision = yield from _first_decision(job, state, clock())
        may_have_losers = job.may_have_losers(state, settings, clock())
        decision = yield from _checked(decision, job, clock, may_have_losers=may_have_losers)
        yield from write(driver, job.sink, settings, decision.state, source)
    except DecisionUnknown:
        raise
    except (SinkError, ValueError):
        return None
    return (yield from _complete(driver, job, settings, decision, clock))


def abort_open(job: Job) -> Steps[int]:
    """Abort the open transactions of a job whose batch is settled: they have lost for ever.

    Those that are not open may have won, and their ids may be in use again.
    """
    known = yield Describe(tuple(each.transactional_id for each in job.winners))
    lost = tuple(each.transactional_id for each in job.winners if is_open(each, known))
    aborted: int = (yield FenceAll(lost)) if lost else 0
    return aborted


class _Age(NamedTuple):
    """The time at which the oldest winner was opened, by the broker's clock, and its timeout."""

    start_ms: int = -1
    timeout_ms: int = 0

    def until(self, now_ms: int) -> int:
        return max(0, now_ms - self.start_ms) if self.start_ms >= 0 else 0


@dataclass(frozen=True, slots=True)
class _Decision:
    """The state that is, or will be, recorded for the batch, and findings before the decision."""

    state: SinkState
    needs_writing: bool
    repaired: int = 0
    is_finished: bool = False
    losers: tuple[str, ...] = ()
    age: _Age = field(default_factory=_Age)
    doubt: str = ""


def check(job: Job, settings: SinkSettings, state: SinkState | None) -> None:
    """
    Raises:
        SinkError: this job must not decide.
    """
    check_query(job.sink, state, job.query)
    check_beginning(job.sink, settings, state, job.batch)
    if state is None:
        return
    if state.batch is not None and state.batch > job.batch:
        raise superseded(job.sink, state, job.batch)
    if job.winners and is_refused(job, state.refused):
        raise NotDecided(f"sink {job.sink!r}: this run of batch {job.batch} was aborted meanwhile")


def _first_decision(job: Job, state: SinkState | None, now_ms: int) -> Steps[_Decision]:
    """Decide that the messages' transactions win, once the previous batch is completely committed.

    Raises:
        WinnersLost, Unfinished, NotRepairable: the previous batch cannot be completed.
        Superseded: tasks have seen a decision that no longer exists.
    """
    if state is not None and not state.is_done:
        assert state.batch is not None
        fates = yield from finish(job.sink, state.batch, state.winners)
        if fates.lost:
            raise WinnersLost(job.sink, state.batch, fates.lost)
    if any(message.found_decided for message in job.messages):
        raise Superseded(
            f"sink {job.sink!r}: tasks have seen batch {job.batch} decided, but it is not: the "
            "decisions were removed while the query ran"
        )
    decided = SinkState(
        job.query,
        job.batch,
        job.run,
        is_done=False,
        winners=job.winners,
        refused=state.refused if state is not None else (),
        decided_ms=now_ms,
        looked_ms=state.looked_ms if state is not None else -1,
        content=job.content,
        ends=job.plan.text,
    )
    return _Decision(decided if job.winners else decided.done(), needs_writing=True)


def _decided_before(job: Job, settings: SinkSettings, state: SinkState) -> Steps[_Decision]:
    """Finish the winners of an earlier run; replace those that were lost.

    The new run is compared with the decided batch only after all decided transactions that can be
    committed are: they were decided, whatever the new run has.

    Raises:
        BatchDiffers: the new run has another batch under the decided batch's number.
        NotDecided, WinnersLost: the batch has to be run once more.
        NotRepairable: the rows of this run are not the ones that were lost.
    """
    fates = Fates((), ())
    if not state.is_done:
        fates = yield from finish(job.sink, job.batch, state.winners)
    if fates.is_void:  # nothing of the decided batch was written: decide it again
        if any(message.found_decided for message in job.messages):
            raise WinnersLost(job.sink, job.batch, fates.lost)
        again = replace(
            state,
            run=job.run,
            winners=job.winners,
            repairs=state.repairs + 1,
            content=job.content,
            ends=job.plan.text,
        )
        again = again if job.winners else again.done()
        return _Decision(again, needs_writing=True, repaired=len(fates.lost))
    replacing = (*fates.committed, *_replacements(job, fates))
    doubt = yield from compare(job, settings, state)
    if not fates.lost:
        return _Decision(state, needs_writing=False, is_finished=True, doubt=doubt)
    repaired = replace(state, run=job.run, winners=replacing, repairs=state.repairs + 1)
    return _Decision(repaired, needs_writing=True, repaired=len(fates.lost), doubt=doubt)


def compare(job: Job, settings: SinkSettings, state: SinkState) -> Steps[str]:
    """A warning for the user, although the batch counts as the decided one; "" if there is none.

    A batch is the same if it has the same rows. It is also the same if it was repeated from the
    query's journal: its input is the same, though a nondeterministic query may produce other rows.

    Raises:
        BatchDiffers: the batches differ.
    """
    decided, came = state.content, job.content
    if decided is None:
        return (
            "the content of the decided batch is unknown, as an earlier version of drumlin decided "
            f"it: it may differ from this run's, {described(came, job.plan.text)}"
        )
    if decided.has_the_rows_of(came):
        return ""
    is_repeated = decided.is_of_one_plan_with(came)
    if is_repeated or (is_repeated is None and settings.rows_may_differ):
        why = "from the same input" if is_repeated else "as rowsMayDiffer allows"
        return f"this run has other rows, {why}: the decided ones stay, {described(decided)}"
    ends = yield from recorded_ends(job.sink, settings, state)
    raise BatchDiffers(
        job.sink,
        job.query,
        job.batch,
        differs=f"{described(decided, ends, state.decided_ms)}, and now has "
        f"{described(came, job.plan.text)}",
        may_be_rows=is_repeated is None,
    )


def _replacements(job: Job, fates: Fates) -> list[Winner]:
    """Transactions of this job that hold exactly the lost rows."""
    messages = {message.identity.key: message for message in job.messages}
    own = {each.key: each for each in job.winners}
    found, different, not_written = [], [], []
    for lost in fates.lost:
        mine = own.get(lost.key)
        message = messages.get(lost.key)
        if mine is not None and mine.has_the_rows_of(lost):
            found.append(mine)
        elif message is not None and message.found_decided:
            not_written.append(lost)
        else:
            different.append(lost)
    if different:
        why = "are not in the topics, as they were never committed; their tasks have other rows now"
        raise NotRepairable(job.sink, job.batch, different, why)
    if not_written:
        raise WinnersLost(job.sink, job.batch, not_written)
    return found


def _checked(
    decision: _Decision, job: Job, clock: Callable[[], int], *, may_have_losers: bool
) -> Steps[_Decision]:
    """Check a decision before it is written, and look for losers if there may be any.

    Raises:
        NotDecided: a transaction that should win is no longer open.
    """
    if may_have_losers:
        losers = yield from _open_losers(job, decision.state)
        looked = replace(decision.state, looked_ms=clock())
        decision = replace(decision, state=looked, losers=losers)
    return replace(decision, age=(yield from _check_open(job, decision.state)))


def _open_losers(job: Job, decided: SinkState) -> Steps[tuple[str, ...]]:
    """Ids of open transactions that lose when the batch is decided.

    They are listed before the decision. An open transaction then belongs to this batch or to an
    earlier one, as no run begins the next batch before this one is decided. So it has lost for
    ever, and may be aborted at any later time.
    """
    return (yield from open_besides(job.sink, decided.winners))


def open_besides(sink: str, winners: Sequence[Winner], run: str = "") -> Steps[tuple[str, ...]]:
    """Ids of the sink's open transactions, of one run or any, that are not among `winners`."""
    kept = {each.transactional_id for each in winners}
    found = yield ListOpen(f"{names.PREFIX}{sink}.{run and run + '.'}")
    return tuple(
        each
        for each in found
        if each not in kept
        and (task := names.parse_task_id(each)) is not None
        and task.sink == sink
        and task.run == (run or task.run)
    )


def _check_open(job: Job, decided: SinkState) -> Steps[_Age]:
    """The age of the oldest transaction that should win.

    Raises:
        NotDecided: a transaction that should win is no longer open.
    """
    own = {each.opened for each in job.winners}
    new = [each for each in decided.winners if each.opened in own]
    if not new:
        return _Age()
    known = yield Describe(tuple(each.transactional_id for each in new))
    gone = missing(new, known)
    if gone:
        tasks = ", ".join(str(each.partition) for each in gone[:20])
        raise NotDecided(
            f"sink {job.sink!r}: batch {job.batch} was not decided, as the transactions of tasks "
            f"{tasks} are over: they timed out, or another run of the batch has aborted them. "
            f"Nothing was written; run the batch again. {LONGER}"
        )
    found = [known[each.transactional_id] for each in new]
    return min(_Age(each.start_ms, each.timeout_ms) for each in found)


def write(
    driver: Opened,
    sink: str,
    settings: SinkSettings,
    state: SinkState,
    source: SourceOffsets | None = None,
) -> Steps[None]:
    """Write record and note in one transaction, which fails if another driver has fenced us.

    Raises:
        RequestFailed: nothing was written.
        DecisionUnknown: whether it was written shows only later.
    """
    topic = settings.decision_topic
    is_in_note = settings.is_for_once and not state.note.has_more
    value = None if is_in_note else state.encode(sink)
    offset = yield Append(driver, topic, sink, value)
    place = {(topic, 0): (offset, state.note.encode())}
    yield SendOffsets(driver, names.group_of(sink), place)
    if source is not None and source.group and source.offsets:
        read = {place: (each, "") for place, each in source.offsets.items()}
        yield SendOffsets(driver, source.group, read)
    try:
        yield CommitDriver(driver)
    except RequestFailed as error:
        raise DecisionUnknown(
            f"sink {sink!r}: whether batch {state.batch} is decided is not known: {error}. Run "
            "the batch again: it finds out"
        ) from error


def _complete(
    driver: Opened,
    job: Job,
    settings: SinkSettings,
    decision: _Decision,
    clock: Callable[[], int],
) -> Steps[CommitReport]:
    """Commit the winners, note that they are, and abort the losers."""
    state = decision.state
    losers = tuple(dict.fromkeys((*job.besides(state.winners), *decision.losers)))
    if not decision.is_finished:
        fates = yield from finish(job.sink, job.batch, state.winners)
        if fates.lost:
            raise WinnersLost(job.sink, job.batch, fates.lost)
    is_marked = True
    if not state.is_done:
        is_marked = yield from mark_done(driver, job.sink, settings, state)
    aborted = 0
    if losers:
        aborted = yield FenceAll(losers)
    left = DriverEpoch(driver, state if state.is_done else state.done()) if is_marked else None
    return CommitReport(
        job.batch,
        sum(each.rows for each in state.winners),
        len(state.winners),
        was_decided=not decision.needs_writing,
        repaired=decision.repaired,
        is_marked_done=is_marked,
        aborted=aborted,
        open_ms=decision.age.until(clock()),
        timeout_ms=decision.age.timeout_ms,
        driver_epoch=left,
        doubt=decision.doubt,
    )


def mark_done(driver: Opened, sink: str, settings: SinkSettings, state: SinkState) -> Steps[bool]:
    """Note that all winners are committed. If that fails, the next driver does it.

    `driver` has written `state`, or has read it after fencing the others. The note goes through
    only if no driver has fenced it since, so `state` is still the last decision then.
    """
    try:
        yield from write(driver, sink, settings, state.done())
    except (RequestFailed, DecisionUnknown):
        return False
    return True
