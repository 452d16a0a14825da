"""Seeded bugs: edits of the protocol's source, each of which the twin must find.

An edit that does not fit the source any more is an error, so the list stays true.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

from drumlin.spark.writing.protocol import abort_steps, decisions, driver, own_ids, task, winners
from spark.sink_twin import cluster


class Mutation(NamedTuple):
    """In `module`, in the function or method `name`, `old` becomes `new`."""

    module: ModuleType
    name: str
    old: str
    new: str


MUTATIONS: dict[str, Mutation | tuple[Mutation, ...]] = {
    "older drivers are not fenced": Mutation(
        cluster,
        "Cluster._init",
        "each.epoch += 1",
        "each.epoch += not name.endswith('.driver') or each.epoch < 0",
    ),
    "the last decision is read before the fence": Mutation(
        decisions,
        "take_over",
        """    driver: Opened = yield InitDriver(driver_id)
    return driver, (yield from last_state(sink, settings))
""",
        """    state = yield from last_state(sink, settings)
    return (yield InitDriver(driver_id)), state
""",
    ),
    "the last decision is read before it is stable": Mutation(
        decisions, "last_state", "topic, True)", "topic, False)"
    ),
    "winners are not looked at before the decision": Mutation(
        driver, "_check_open", "gone = missing(new, known)", "gone = []"
    ),
    "a batch that was decided is decided again": Mutation(
        driver, "commit", "state is not None and state.batch == batch", "False"
    ),
    "a decided batch is known by its number": Mutation(
        driver, "compare", "decided.has_the_rows_of(came)", "True"
    ),
    "other rows of the same input are another batch": Mutation(
        driver, "compare", "is_repeated or (", "False or ("
    ),
    "other input counts if nothing says that rows may differ": Mutation(
        driver, "compare", "is_repeated is None and settings.rows_may_differ", "True"
    ),
    "a batch that is behind is decided": (
        Mutation(driver, "check", "state.batch is not None and state.batch > job.batch", "False"),
        Mutation(driver, "_check_open", "gone = missing(new, known)", "gone = []"),
        Mutation(driver, "commit", "seen.batch is not None and seen.batch > batch", "False"),
    ),
    "ours are aborted after a commit that may have decided": Mutation(
        driver, "commit", "not isinstance(error, DecisionUnknown | Fenced)", "True"
    ),
    "abort takes every failed commit for undecided": Mutation(
        abort_steps, "abort", "len(told) < len(messages)", "True"
    ),
    "abort does not write down what must not be decided": Mutation(
        abort_steps, "abort", "yield from write(driver, job.sink, settings, refusing)", "pass"
    ),
    "losers are listed after the decision": Mutation(
        driver,
        "_complete",
        """    losers = tuple(dict.fromkeys((*job.besides(state.winners), *decision.losers)))
""",
        """    losers = yield from _open_losers(job, state)
""",
    ),
    "a winner without an answer counts as committed": Mutation(
        winners,
        "finish",
        "found = {each: outcomes[each.opened] for each in winners}",
        'found = {each: outcomes[each.opened].replace("unanswered", "committed") '
        "for each in winners}",
    ),
    "a lost winner counts as committed": Mutation(
        winners, "finish", 'if outcome == "committed"', 'if outcome in ("committed", "aborted")'
    ),
    "done is marked before all is committed": Mutation(
        driver,
        "_complete",
        "    if not decision.is_finished:\n",
        "    yield from mark_done(driver, job.sink, settings, state)\n"
        "    if not decision.is_finished:\n",
    ),
    "done is marked under a new fence, without looking again": Mutation(
        driver,
        "mark_done",
        "        yield from write",
        "        from drumlin.spark.writing.protocol.requests import InitDriver\n"
        "        driver = yield InitDriver(names.driver_id(sink))\n        yield from write",
    ),
    "lost rows are written again unproven": Mutation(
        driver, "_replacements", "mine.has_the_rows_of(lost)", "True"
    ),
    "a batch that is lost in part is rewritten": Mutation(
        driver, "_decided_before", "if fates.is_void:", "if fates.lost:"
    ),
    "winners are listed among losers": Mutation(
        driver, "open_besides", "if each not in kept\n", "if True\n"
    ),
    "tasks that found the batch decided are no hindrance to deciding it again": Mutation(
        driver,
        "_decided_before",
        "        if any(message.found_decided for message in job.messages):\n            raise",
        "        if False:\n            raise",
    ),
    "without an offset nothing was decided": Mutation(
        decisions,
        "last_state",
        "value = yield FindRecord(topic, sink)\n"
        "    return None if value is None else SinkState.decode(sink, value)",
        "return None",
    ),
    "a task of a lost winner writes nothing": Mutation(
        winners, "must_write", "return is_lost(own, known)", "return False"
    ),
    "a task that writes what was lost takes it back": Mutation(
        task, "finish", "if is_decided and now != begun:", "if is_decided:"
    ),
    "abort refuses what has won": Mutation(
        abort_steps,
        "abort",
        "if state is not None and {each.opened for each in state.winners} & set(job.opened):",
        "if False:",
    ),
    "an operator's abort refuses no run": Mutation(
        abort_steps, "abort_sink", "    if losers or not state.is_done:\n", "    if False:\n"
    ),
    "an id whose transaction was aborted is used again": Mutation(
        own_ids,
        "OwnIds.choose",
        "if found is not None and found.is_of(each) and found.state in COMMITTED:",
        "if True:",
    ),
    "an id is used again while its batch is not done": Mutation(
        own_ids, "OwnIds.choose", "if state.is_settled(batch)]", "]"
    ),
    "a process takes ids that are another's": Mutation(
        own_ids,
        "OwnIds.choose",
        "self._process, own.made - 1",
        "'0' * 12, own.made - 1",
    ),
    "runs share their ids": Mutation(
        own_ids,
        "OwnIds.choose",
        "names.run_name(run), self._process, own.made - 1",
        "'run', self._process, own.made - 1",
    ),
}


#: Too rare for seeds: found by stories, see test_sink_twin.py and test_sink_stories.py.
REFUSAL_IS_NOT_READ = Mutation(
    driver, "check", "if job.winners and is_refused(", "if False and is_refused("
)
LOSERS_ARE_ABORTED_FIRST = Mutation(
    driver,
    "_complete",
    "    if not decision.is_finished:\n",
    "    if losers:\n        yield FenceAll(losers)\n    if not decision.is_finished:\n",
)
A_RUN_S_WINNERS_ARE_ABORTED = Mutation(
    abort_steps, "abort_run", "(sink, state.winners, run)", "(sink, (), run)"
)
WHAT_IS_LEFT_IS_NOT_REFUSED = Mutation(
    abort_steps, "abort_run", "if left and not settings.is_for_once:", "if False:"
)
WHAT_HAS_WON_IS_FORGOTTEN = Mutation(
    abort_steps, "forget", "if not state.is_done and state.batch is not None:", "if False:"
)
THE_DRIVERS_ID_IS_NOT_LOOKED_AT = Mutation(
    decisions, "take_over", "if not is_known and", "if False and"
)
WHAT_IS_DECIDED_AGAIN_IS_TOLD_AS_IT_WAS = Mutation(
    driver, "_decided_before", "content=job.content,", ""
)
#: It would save half of a decision's requests: the next decision finds the winners committed.
DONE_IS_LEFT_TO_THE_NEXT_DECISION = Mutation(
    driver,
    "_complete",
    "is_marked = yield from mark_done(driver, job.sink, settings, state)",
    "pass",
)
ABORTED_IN_EPOCH = Mutation(
    driver,
    "_commit_in_epoch",
    "    except (SinkError, ValueError):\n",
    "    except (SinkError, ValueError):\n        yield FenceAll(job.besides(state.winners))\n",
)

#: Where each is found soonest; others are tried if that is true no more.
FOUND_BY = {
    "older drivers are not fenced": 0,
    "the last decision is read before the fence": 0,
    "the last decision is read before it is stable": 34,
    "winners are not looked at before the decision": 0,
    "a batch that was decided is decided again": 0,
    "a decided batch is known by its number": 85,
    "other rows of the same input are another batch": 9,
    "other input counts if nothing says that rows may differ": 85,
    "a batch that is behind is decided": 0,
    "ours are aborted after a commit that may have decided": 24,
    "abort takes every failed commit for undecided": 4,
    "abort does not write down what must not be decided": 54,
    "losers are listed after the decision": 328,
    "a winner without an answer counts as committed": 29,
    "a lost winner counts as committed": 0,
    "done is marked before all is committed": 0,
    "done is marked under a new fence, without looking again": 16,
    "lost rows are written again unproven": 203,
    "a batch that is lost in part is rewritten": 107,
    "winners are listed among losers": 0,
    "tasks that found the batch decided are no hindrance to deciding it again": 958,
    "without an offset nothing was decided": 10,
    "a task of a lost winner writes nothing": 107,
    "a task that writes what was lost takes it back": 0,
    "abort refuses what has won": 107,
    "an operator's abort refuses no run": 333,
    "an id whose transaction was aborted is used again": 277,
    "an id is used again while its batch is not done": 19,
    "a process takes ids that are another's": 8,
    "runs share their ids": 6,
}


@contextlib.contextmanager
def applied(bug: Mutation | tuple[Mutation, ...]) -> Iterator[None]:
    """The protocol with this bug in it."""
    with contextlib.ExitStack() as stack:
        for each in (bug,) if isinstance(bug, Mutation) else bug:
            stack.enter_context(_applied(each))
        yield


@contextlib.contextmanager
def _applied(mutation: Mutation) -> Iterator[None]:
    *holders, last = mutation.name.split(".")
    holder: Any = mutation.module
    for each in holders:
        holder = getattr(holder, each)
    original = getattr(holder, last)
    source = textwrap.dedent(inspect.getsource(original))
    old, new = mutation.old, mutation.new
    assert source.count(old) == 1, f"{old!r} is {source.count(old)} times in {mutation.name}"
    namespace: dict[str, Any] = dict(mutation.module.__dict__)
    exec("from __future__ import annotations\n" + source.replace(old, new), namespace)
    mutant = namespace[last]
    owners = [holder]
    if inspect.ismodule(holder):  # others have imported it by its name
        owners = [m for m in list(sys.modules.values()) if m.__dict__.get(last) is original]
    for owner in owners:
        setattr(owner, last, mutant)
    try:
        yield
    finally:
        for owner in owners:
            setattr(owner, last, original)
