"""What a sink remembers, and when a record is not taken for its last decision."""

from __future__ import annotations

import pytest

from drumlin.spark.writing.protocol.decisions import last_state
from drumlin.spark.writing.protocol.messages import SinkSettings
from drumlin.spark.writing.protocol.requests import Description, FetchAnchor, ReadRecord
from drumlin.spark.writing.protocol.sink_errors import StateLost
from drumlin.spark.writing.protocol.state import Anchor, SinkState
from drumlin.spark.writing.protocol.transactions import Winner
from drumlin.spark.writing.protocol.winners import is_lost, is_open

_OLDER = SinkState("q", 4, "run", is_done=False, refused=("4:a",))
_LAST = SinkState("q", 5, "run", is_done=False, refused=("5:b",))


def test_a_run_that_was_refused_stays_so_until_its_batch_is_done() -> None:
    """An operator may abort a run of the next batch while the last one is being committed."""
    state = SinkState("q", 4, "run", is_done=False).refusing("4:old", "5:next", "6:later")
    assert state.done().refused == ("5:next", "6:later")
    assert SinkState.decode("s", state.done().encode("s")).refused == ("5:next", "6:later")


def test_of_very_many_that_were_refused_the_last_are_remembered() -> None:
    state = SinkState("q")
    for number in range(200):
        state = state.refusing(f"1:{number}")
    assert len(state.refused) < 200
    assert state.refused[-10:] == tuple(f"1:{number}" for number in range(190, 200))


def test_a_record_of_an_older_decision_is_not_taken_for_the_last() -> None:
    """The group's offset says which is the last: a topic that was put back lacks its end."""
    steps = last_state("s", SinkSettings())
    anchor = Anchor(7, _LAST.note.encode())
    assert isinstance(next(steps), FetchAnchor)
    assert isinstance(steps.send(anchor), ReadRecord)
    assert isinstance(steps.send(_OLDER.encode("s")), FetchAnchor)
    with pytest.raises(StateLost, match="batch 5 is decided"):
        steps.send(anchor)


def test_another_driver_may_decide_while_the_last_decision_is_read() -> None:
    steps = last_state("s", SinkSettings())
    next(steps)
    steps.send(Anchor(6, _OLDER.note.encode()))
    assert isinstance(steps.send(_LAST.encode("s")), FetchAnchor)
    assert isinstance(steps.send(Anchor(7, _LAST.note.encode())), ReadRecord)
    with pytest.raises(StopIteration) as found:
        steps.send(_LAST.encode("s"))
    assert found.value.value == _LAST


def test_a_later_transaction_of_its_id_is_not_the_winner() -> None:
    winner = Winner("", 0, "id", 7, 3, 1, "c")
    states = {
        Description("Ongoing", 7, 3): (True, False),
        Description("Ongoing", 7, 4): (False, False),  # it may have committed before
        Description("Ongoing", 7, 5): (False, True),
        Description("Ongoing", 8, 3): (False, False),
        Description("CompleteCommit", 7, 3): (False, False),
        Description("CompleteAbort", 7, 3): (False, True),
    }
    for found, expected in states.items():
        known = {"id": found}
        assert (is_open(winner, known), is_lost(winner, known)) == expected, found
    assert not is_open(winner, {})
    assert not is_lost(winner, {})
