"""Reads a sink's last decision.

The group's committed offset usually suffices. If it has expired, as it does after a week without
a batch, the decision topic is searched. A decision that is known to exist but cannot be read is an
error; it must never count as "nothing was decided".
"""

from __future__ import annotations

from drumlin.spark.writing.protocol import names
from drumlin.spark.writing.protocol.messages import SinkSettings
from drumlin.spark.writing.protocol.requests import (
    Describe,
    FetchAnchor,
    FindRecord,
    InitDriver,
    ReadRecord,
    Steps,
)
from drumlin.spark.writing.protocol.sink_errors import StateLost, Superseded
from drumlin.spark.writing.protocol.state import Anchor, Note, SinkState
from drumlin.spark.writing.protocol.transactions import Opened
from drumlin.spark.writing.protocol.winners import COMMITTED


def glance(sink: str, settings: SinkSettings, batch: int) -> Steps[SinkState | None]:
    """The sink's state as seen without fencing: it may be out of date, but was true once.

    It has winners only if `batch` itself is decided and not done, and its record is not being
    replaced right now. None: the group has no offset, which does not prove that there was no
    decision.
    """
    anchor = yield FetchAnchor(names.group_of(sink), settings.decision_topic, False)
    if anchor is None:
        return None
    note = Note.decode(sink, anchor.metadata)
    if not note.is_done and note.batch == batch:
        value = yield ReadRecord(settings.decision_topic, anchor.offset, sink)
        if value is not None:
            return SinkState.decode(sink, value)
    return SinkState.from_note(note)


def take_over(
    sink: str, settings: SinkSettings, *, is_known: bool
) -> Steps[tuple[Opened, SinkState | None]]:
    """Fence all other drivers, and read the last decision; None if there was none.

    `is_known`: the group's offset has already shown that there was a decision.

    Raises:
        StateLost: something was decided, and cannot be read.
    """
    driver_id = names.driver_id(sink)
    if not is_known and not settings.is_for_once:
        # The topic and the group's offset may be lost together. The driver's transactional id
        # remains: until a driver begins under it again, its state shows that there were commits.
        found = (yield Describe((driver_id,))).get(driver_id)
        if found is not None and found.state in COMMITTED:
            value = yield FindRecord(settings.decision_topic, sink)
            if value is None:
                raise _removed(sink, settings)
    driver: Opened = yield InitDriver(driver_id)
    return driver, (yield from last_state(sink, settings))


def last_state(sink: str, settings: SinkSettings) -> Steps[SinkState | None]:
    """The last decision, None if there was none; exact once the driver's id was initialised."""
    topic = settings.decision_topic
    look = FetchAnchor(names.group_of(sink), topic, True)
    anchor: Anchor | None = yield look
    while anchor is not None:
        note = Note.decode(sink, anchor.metadata)
        if not note.has_more:
            return SinkState.from_note(note)
        value = yield ReadRecord(topic, anchor.offset, sink)
        if value is None:  # a copied topic has other offsets
            value = yield FindRecord(topic, sink)
        state = None if value is None else SinkState.decode(sink, value)
        if state is not None and state.note == note:
            return state
        before, anchor = anchor, (yield look)
        if anchor == before:
            raise _lost(sink, settings, note)
        # Another driver has fenced us and continues; our decision would not go through.
    if settings.is_for_once:
        return None
    value = yield FindRecord(topic, sink)
    return None if value is None else SinkState.decode(sink, value)


def recorded_ends(sink: str, settings: SinkSettings, state: SinkState) -> Steps[str]:
    """The source end offsets of this state's batch, if its record exists and has them."""
    anchor = yield FetchAnchor(names.group_of(sink), settings.decision_topic, False)
    value = None
    if anchor is not None:
        value = yield ReadRecord(settings.decision_topic, anchor.offset, sink)
    found = None if value is None else SinkState.decode(sink, value)
    return found.ends if found is not None and found.content == state.content else ""


def check_query(sink: str, state: SinkState | None, query: str) -> None:
    """
    Raises:
        Superseded: the sink counts the batches of another query.
    """
    if state is not None and state.batch is not None and state.query != query:
        raise Superseded(
            f"sink {sink!r} belongs to query {state.query or 'of a plain write'!r}, and has its "
            f"batch {state.batch}; this is query {query or 'of a plain write'!r}. Give this one "
            f"another sinkId, or free the name by `drumlin sinks forget {sink}`"
        )


def superseded(sink: str, state: SinkState, batch: int) -> Superseded:
    """The error for a batch before the last decided one."""
    return Superseded(
        f"sink {sink!r}: batch {state.batch} is decided, by run {state.run}, and this is batch "
        f"{batch}: another run of the query has continued, or this one has an old checkpoint, as "
        "of a backup. Nothing was written: restore the newest checkpoint, or begin with a new one "
        "where the decided batches end"
    )


def check_beginning(sink: str, settings: SinkSettings, state: SinkState | None, batch: int) -> None:
    """
    Raises:
        StateLost: earlier batches must have been decided, and nothing is known about them.
    """
    if settings.may_begin_late or batch == 0:
        return
    if state is None or (state.batch is None and not state.is_forgotten):
        raise StateLost(
            f"sink {sink!r}: this is batch {batch}, and neither topic {settings.decision_topic!r} "
            f"nor group {names.group_of(sink)!r} knows of any batch. If the query has written "
            "here before, its decisions are gone: check whether its last batch is in the topics. "
            "If it has not, set the option sinkIsNew=true"
        )


def _removed(sink: str, settings: SinkSettings) -> StateLost:
    return StateLost(
        f"sink {sink!r}: a batch was decided, and topic {settings.decision_topic!r} knows nothing "
        "of it: its records were deleted, or the option decisionTopic has changed. Check which "
        f"batches are in the topics; then `drumlin sinks forget {sink}` lets the query continue"
    )


def _lost(sink: str, settings: SinkSettings, note: Note) -> StateLost:
    return StateLost(
        f"sink {sink!r}: batch {note.batch} is decided, and the record of it is not in topic "
        f"{settings.decision_topic!r} any more. Check whether the batch's rows are in the topics; "
        f"then `drumlin sinks forget {sink}` lets the query continue"
    )
