"""Whose a fetch session is, and whether its id can be guessed."""

from __future__ import annotations

import random

import pytest

from drumlin.broker.fetch_sessions.sessions import FetchSessions
from drumlin.clock import ManualClock
from drumlin.wire.error_codes import ErrorCode, KafkaError

OWNER = ("User:alice", "INSIDE")


@pytest.mark.parametrize("other", [("User:bob", "INSIDE"), ("User:alice", "OUTSIDE")])
def test_only_its_owner_finds_or_ends_it(other: tuple[str, str]) -> None:
    sessions = FetchSessions(10, ManualClock())
    session = sessions.create(1, OWNER, by_id=False)
    assert session is not None
    sessions.close(session.id, other)
    with pytest.raises(KafkaError) as refused:
        sessions.find(session.id, 1, other, by_id=False)
    assert refused.value.code is ErrorCode.fetch_session_id_not_found
    session.queue.append(lambda: None)
    assert sessions.busy(session.id, 7, other) is None
    assert sessions.find(session.id, 1, OWNER, by_id=False) is session
    sessions.close(session.id, OWNER)
    assert len(sessions) == 0


def test_its_id_does_not_follow_from_others() -> None:
    ids = set()
    for _ in range(2):
        random.seed(1)
        session = FetchSessions(10, ManualClock()).create(1, OWNER, by_id=False)
        assert session is not None
        assert 0 < session.id < 2**31
        ids.add(session.id)
    assert len(ids) == 2
