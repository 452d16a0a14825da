"""What a sink remembers of runs that must not decide any more."""

from __future__ import annotations

from drumlin.spark.writing.protocol.state import SinkState


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
