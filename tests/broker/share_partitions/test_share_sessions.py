"""Share sessions: a limit of partitions for all of them together."""

from __future__ import annotations

from uuid import UUID

import pytest

from broker.sessions import SESSION
from drumlin.broker.share_partitions.sessions import Member, SessionPartition, ShareSessions
from drumlin.turns import to_end
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.time.stepped import Stepped

_MANY = 100


def _partitions(*indexes: int) -> list[SessionPartition]:
    """A partition of a topic that may or may not exist."""
    return [SessionPartition(UUID(int=7), each) for each in indexes]


def _open(sessions: ShareSessions, name: str, *indexes: int) -> Member:
    member = Member("g", name)
    sessions.open(member, SESSION.owner, _partitions(*indexes), 1, _MANY, acknowledges=False)
    return member


def _is_refused(sessions: ShareSessions, member: Member, epoch: int, *indexes: int) -> bool:
    try:
        to_end(sessions.go_on(member, SESSION.owner, epoch, _partitions(*indexes)))
    except KafkaError as error:
        assert error.code is ErrorCode.share_session_limit_reached
        return True
    return False


@pytest.fixture
def sessions() -> ShareSessions:
    return ShareSessions(max_partitions=10)


def test_nobody_adds_partitions_for_ever(sessions: ShareSessions) -> None:
    member = _open(sessions, "m", 0)
    for epoch in range(1, 10):
        assert not _is_refused(sessions, member, epoch, epoch)
    assert _is_refused(sessions, member, 10, 10)
    assert len(sessions.get(member, SESSION.owner).partitions) == 10
    # It is as before, so it continues in the same epoch, with what it has.
    assert not _is_refused(sessions, member, 10, 3, 3)
    to_end(sessions.go_on(member, SESSION.owner, 11, (), _partitions(0, 0, 99)))
    assert not _is_refused(sessions, member, 12, 10)


def test_a_new_session_needs_room_too(sessions: ShareSessions) -> None:
    large, other = _open(sessions, "large", *range(9)), _open(sessions, "other", 0)
    with pytest.raises(KafkaError) as raised:
        _open(sessions, "late", 0)
    assert raised.value.code is ErrorCode.share_session_limit_reached
    assert len(sessions) == 2
    sessions.close(other)
    _open(sessions, "late", 0)
    _open(sessions, "large", *range(9))  # in place of the one that there is
    with pytest.raises(KafkaError):
        _open(sessions, "large", *range(10))
    assert len(sessions.get(large, SESSION.owner).partitions) == 9


def test_members_that_want_nothing_yet_always_find_room(sessions: ShareSessions) -> None:
    _open(sessions, "m", *range(10))
    assert not _is_refused(sessions, _open(sessions, "other"), 1)


def test_very_many_are_added_and_forgotten_in_steps() -> None:
    sessions, count = ShareSessions(), 5_000
    member = _open(sessions, "m", *range(count))
    many = _partitions(*range(count, 2 * count))
    assert Stepped(sessions.go_on(member, SESSION.owner, 1, many)).count() >= count
    assert Stepped(sessions.go_on(member, SESSION.owner, 2, (), many)).count() >= count
    assert list(sessions.get(member, SESSION.owner).partitions) == _partitions(*range(count))


def test_of_two_requests_at_the_same_time_one_is_out_of_order(sessions: ShareSessions) -> None:
    """Others have their turn while partitions are added: the session advances once."""
    member = _open(sessions, "m", 0)
    first = Stepped(sessions.go_on(member, SESSION.owner, 1, _partitions(1)))
    next(first)
    to_end(sessions.go_on(member, SESSION.owner, 1, _partitions(2)))
    with pytest.raises(KafkaError) as raised:
        first.to_end()
    assert raised.value.code is ErrorCode.invalid_share_session_epoch
    assert list(sessions.get(member, SESSION.owner).partitions) == _partitions(0, 2)


def test_who_has_left_meanwhile_has_no_session(sessions: ShareSessions) -> None:
    member = _open(sessions, "m", 0)
    work = Stepped(sessions.go_on(member, SESSION.owner, 1, _partitions(1)))
    next(work)
    sessions.close(member)
    with pytest.raises(KafkaError) as raised:
        work.to_end()
    assert raised.value.code is ErrorCode.share_session_not_found
    _open(sessions, "m", *range(10))  # nothing is counted that is not there
