"""Sessions: how long they last, and how many there are."""

from __future__ import annotations

import asyncio

from drumlin.console.serving.sessions import Sessions
from drumlin.peer.broker_connections import BrokerConnections, parse_bootstrap
from drumlin.peer.options import PeerOptions


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def _connections() -> BrokerConnections:
    return BrokerConnections(parse_bootstrap("127.0.0.1:1"), PeerOptions())


def test_an_idle_session_ends() -> None:
    async def play() -> None:
        clock = _Clock()
        sessions = Sessions(clock)
        session = await sessions.begin(_connections(), "alice")
        clock.now = 29 * 60.0
        sessions.use(session)
        clock.now = 58 * 60.0
        assert sessions.find(session.cookie) is session
        clock.now = 60 * 60.0
        assert sessions.find(session.cookie) is None
        await sessions.end_those_over()
        clock.now = 0.0
        assert sessions.find(session.cookie) is None, "it is gone, not only hidden"

    asyncio.run(play())


def test_a_session_that_is_used_ends_too() -> None:
    async def play() -> None:
        clock = _Clock()
        sessions = Sessions(clock)
        session = await sessions.begin(_connections(), "alice")
        for minute in range(0, 12 * 60, 20):
            clock.now = minute * 60.0
            assert sessions.find(session.cookie) is session
            sessions.use(session)
        clock.now = 12 * 60 * 60.0 + 1
        assert sessions.find(session.cookie) is None

    asyncio.run(play())


def test_a_session_ends_with_its_token() -> None:
    async def play() -> None:
        clock = _Clock()
        sessions = Sessions(clock)
        session = await sessions.begin(_connections(), "alice", 60.0)
        clock.now = 59.0
        assert sessions.find(session.cookie) is session
        clock.now = 60.0
        assert sessions.find(session.cookie) is None
        await sessions.end_those_over()
        clock.now = 0.0
        assert sessions.find(session.cookie) is None, "it is gone, not only hidden"

    asyncio.run(play())


def test_too_many_sessions_end_the_one_longest_unused() -> None:
    async def play() -> None:
        clock = _Clock()
        sessions = Sessions(clock)
        begun = []
        for second in range(64):
            clock.now = float(second)
            begun.append(await sessions.begin(_connections(), None))
        clock.now = 100.0
        sessions.use(begun[0])
        await sessions.begin(_connections(), None)
        found = [sessions.find(each.cookie) for each in begun]
        assert found[0] is begun[0]
        assert found[1] is None
        assert found[2:] == begun[2:]

    asyncio.run(play())


def test_who_logs_in_often_ends_no_session_of_others() -> None:
    async def play() -> None:
        clock = _Clock()
        sessions = Sessions(clock)
        alice = await sessions.begin(_connections(), "alice")
        for second in range(1, 200):
            clock.now = float(second)
            last = await sessions.begin(_connections(), "mallory")
        assert sessions.find(alice.cookie) is alice
        assert sessions.find(last.cookie) is last

    asyncio.run(play())


def test_all_sessions_of_a_user_have_one_share() -> None:
    async def play() -> None:
        sessions = Sessions()
        alice, again, bob = [
            await sessions.begin(_connections(), user) for user in ("alice", "alice", "bob")
        ]
        assert again.free is alice.free
        assert bob.free is not alice.free
        assert (again.owner, bob.owner) == (alice.owner, "user bob")
        nobody = [await sessions.begin(_connections(), None) for _ in range(2)]
        assert nobody[0].free is not nobody[1].free
        assert nobody[0].owner != nobody[1].owner

    asyncio.run(play())


def test_secrets_are_not_shown() -> None:
    async def play() -> None:
        session = await Sessions().begin(_connections(), "alice")
        assert session.cookie not in repr(session)
        assert session.token not in repr(session)

    asyncio.run(play())
