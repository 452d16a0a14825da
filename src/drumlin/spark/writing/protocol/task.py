"""The task's side: checks whether the batch is decided, writes a transaction, leaves it open.

A task must never commit what it writes: the driver does so after the decision.
"""

from __future__ import annotations

from dataclasses import replace

from drumlin.spark.writing.protocol import winners
from drumlin.spark.writing.protocol.decisions import check_query, glance, superseded
from drumlin.spark.writing.protocol.messages import SinkSettings, TaskIdentity, TaskMessage
from drumlin.spark.writing.protocol.own_ids import OwnIds
from drumlin.spark.writing.protocol.requests import AbortOwn, Flush, InitTask, Steps
from drumlin.spark.writing.protocol.state import SinkState
from drumlin.spark.writing.protocol.transactions import Opened


def begin(identity: TaskIdentity, settings: SinkSettings) -> Steps[SinkState | TaskMessage | None]:
    """The sink's state before writing; a message instead if there is nothing to write.

    The message lacks the task's rows: they are counted by the caller, so that the driver can
    compare them with the decided ones.

    Raises:
        Superseded: a later batch is decided, or the sink belongs to another query.
    """
    sink, batch = identity.sink, identity.batch
    state = yield from glance(sink, settings, batch)
    check_query(sink, state, identity.query)
    if state is None or state.batch is None or state.batch < batch:
        return state
    if state.batch > batch:
        raise superseded(sink, state, batch)
    if state.winners and (yield from winners.must_write(state, identity.key)):
        return state
    return TaskMessage(identity, found_decided=True)


def open_transaction(
    identity: TaskIdentity, settings: SinkSettings, ids: OwnIds, state: SinkState | None
) -> Steps[Opened]:
    """Open this attempt's own transaction. Wait for the first row: it holds up readers."""
    transactional_id = yield from ids.choose(identity.sink, identity.run, state)
    opened: Opened = yield InitTask(transactional_id, settings.transaction_timeout_ms)
    return opened


def finish(
    identity: TaskIdentity,
    settings: SinkSettings,
    ids: OwnIds,
    message: TaskMessage,
    begun: SinkState | None,
) -> Steps[TaskMessage]:
    """Leave the transaction to the driver, or abort it if the batch was decided meanwhile.

    A decided batch has its winners. No driver would end this transaction, and it would hold up
    readers until it timed out.
    """
    opened = message.opened
    if opened is None:
        return message
    yield Flush(opened)
    now = yield from glance(identity.sink, settings, identity.batch)
    is_decided = now is not None and now.batch is not None and now.batch >= identity.batch
    if is_decided and now != begun:
        yield AbortOwn(opened)
        return replace(message, found_decided=True, opened=None)
    ids.detached(identity.sink, identity.run, opened, identity.batch)
    return message
