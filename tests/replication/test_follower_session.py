"""What a follower tells its leader: only what the leader does not know yet."""

from __future__ import annotations

from random import Random

from drumlin.peer.follower_fetch import Key, Position
from drumlin.replication.follower_session import FollowerSession, Request
from rig.depth import so_many

A, B, C = ((bytes(16), index) for index in range(3))


def at(offset: int, epoch: int = 0) -> Position:
    return Position(epoch, offset, epoch, 0)


def begun(*keys: Key, session_id: int = 7) -> FollowerSession:
    """A session in which the leader has these partitions at offset 0."""
    session = FollowerSession()
    for key in keys:
        session.want(key, at(0))
    session.answered(session.next(), session_id)
    return session


def named(request: Request) -> dict[Key, Position]:
    return dict(request.wanted)


def test_the_first_request_names_all() -> None:
    session = FollowerSession()
    session.want(A, at(1))
    session.want(B, at(2))
    assert session.is_starting
    request = session.next()
    assert (request.session_id, request.epoch) == (0, 0)
    assert named(request) == {A: at(1), B: at(2)}
    assert request.is_complete
    assert session.is_starting
    session.answered(request, 7)
    assert not session.is_starting


def test_later_ones_name_what_has_moved() -> None:
    session = begun(A, B)
    session.want(A, at(0))
    assert not session.has_updates
    session.want(B, at(5))
    request = session.next()
    assert (request.session_id, request.epoch) == (7, 1)
    assert named(request) == {B: at(5)}
    session.answered(request, 7)
    assert session.next()[1:] == (7, 2, [], (), True)


def test_what_is_to_be_said_again_is_named_once_more() -> None:
    session = begun(A, B)
    held = session.next()
    session.report_again(A)
    session.report_again(C)  # which is not fetched
    request = session.next()
    assert named(request) == {A: at(0)}
    assert session.asked(A, held) is None
    assert session.asked(A, request) == at(0)


def test_a_partition_that_is_dropped_is_forgotten_once() -> None:
    session = begun(A, B)
    session.drop(A)
    assert session.next().forgotten == (A,)
    assert session.next().forgotten == ()


def test_one_that_comes_back_at_once_is_not_forgotten() -> None:
    session = begun(A, B)
    session.drop(A)
    session.want(A, at(3))
    request = session.next()
    assert request.forgotten == ()
    assert named(request) == {A: at(3)}


def test_one_that_the_leader_never_knew_is_not_forgotten() -> None:
    session = begun(A)
    session.want(B, at(0))
    session.drop(B)
    assert session.next().forgotten == ()


def test_a_session_without_partitions_ends() -> None:
    session = begun(A)
    session.drop(A)
    session.want(B, at(1))
    request = session.next()
    assert (request.session_id, request.epoch, request.forgotten) == (7, 0, ())
    assert named(request) == {B: at(1)}


def test_a_new_session_takes_the_place_of_the_old_one() -> None:
    session = begun(A, B)
    old = session.next()
    session.restart()
    assert not session.is_current(old)
    request = session.next()
    assert session.is_current(request)
    assert (request.session_id, request.epoch) == (7, 0)
    assert named(request) == {A: at(0), B: at(0)}
    session.answered(request, 8)
    assert session.next()[1:3] == (8, 1)


def test_answers_count_for_the_position_that_was_asked_for() -> None:
    session = begun(A, B)
    first = session.next()
    assert session.asked(A, first) == at(0)
    session.want(A, at(9))
    assert session.asked(A, first) is None
    assert session.asked(B, first) == at(0)
    second = session.next()
    assert session.asked(A, first) is None
    assert session.asked(A, second) == at(9)
    session.drop(A)
    assert session.asked(A, second) is None
    assert session.asked(C, second) is None


def test_a_leader_that_keeps_no_session_is_told_all_each_time() -> None:
    session = FollowerSession()
    session.want(A, at(0))
    session.want(B, at(0))
    request = session.next()
    session.want(B, at(4))
    session.answered(request, 0)
    again = session.next()
    assert (again.session_id, again.epoch) == (0, 0)
    assert named(again) == {A: at(0), B: at(4)}


def test_very_many_are_named_by_several_requests() -> None:
    session = FollowerSession()
    keys = [(bytes(16), index) for index in range(2500)]
    for key in keys:
        session.want(key, at(0))
    seen: list[Key] = []
    for session_id, is_complete in ((7, False), (7, False), (7, True)):
        request = session.next()
        assert request.is_complete == is_complete
        seen += [key for key, _ in request.wanted]
        session.answered(request, session_id)
    assert seen == keys


def test_without_a_session_very_many_have_their_turn() -> None:
    session = FollowerSession()
    for index in range(1500):
        session.want((bytes(16), index), at(0))
    counts = dict.fromkeys(range(1500), 0)
    for _ in range(3):
        request = session.next()
        for (_, index), _ in request.wanted:
            counts[index] += 1
        session.answered(request, 0)
    assert set(counts.values()) == {2}


def test_epochs_begin_again_after_the_largest() -> None:
    session = begun(A)
    session._epoch = 2**31 - 1
    assert [session.next().epoch for _ in range(2)] == [2**31 - 1, 1]


def test_whatever_happens_the_leader_knows_what_is_wanted() -> None:
    chance = Random(4)
    for _ in range(so_many(50, 1000)):
        session, keys = FollowerSession(), [(bytes(16), index) for index in range(6)]
        wanted: dict[Key, Position] = {}
        leaders: dict[Key, Position] = {}
        for _ in range(60):
            key = chance.choice(keys)
            match chance.choice(["want", "want", "drop", "request", "request", "restart"]):
                case "want":
                    wanted[key] = at(chance.randrange(3))
                    session.want(key, wanted[key])
                case "drop":
                    wanted.pop(key, None)
                    session.drop(key)
                case "restart" if chance.random() < 0.2:
                    session.restart()
                case "request" if len(session):
                    request = session.next()
                    if request.epoch == 0:
                        leaders = {}
                    for gone in request.forgotten:
                        del leaders[gone]
                    leaders.update(request.wanted)
                    assert leaders == wanted
                    session.answered(request, 7)
                    for each in keys:
                        assert session.asked(each, request) == wanted.get(each)
