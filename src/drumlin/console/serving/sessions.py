"""Sessions: each has its own connections, with its user's login, in memory only.

A request belongs to a session if it has its cookie, which pages of other sites cannot send, and its
token in a header, which only the page of this very address and port knows.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Final

from drumlin.peer.broker_connections import BrokerConnections

_IDLE_S: Final = 30 * 60
_LIFE_S: Final = 12 * 60 * 60
_SESSIONS_MAX: Final = 64
_REQUESTS_MAX: Final = 8
_SWEEP_S: Final = 30.0


@dataclass(slots=True, eq=False)
class Session:
    """One login; `user` is None on a cluster without logins. `ends_at` is that of a token."""

    connections: BrokerConnections
    user: str | None
    begun_at: float
    used_at: float
    ends_at: float = math.inf
    cookie: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    #: Requests at once, of all sessions of a user.
    free: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_REQUESTS_MAX))

    @property
    def owner(self) -> str:
        """Whose share of what all have this is: the user's, or the session's where none logs in."""
        return f"session {self.cookie}" if self.user is None else f"user {self.user}"

    def is_over(self, now: float) -> bool:
        is_too_old = now - self.used_at > _IDLE_S or now - self.begun_at > _LIFE_S
        return is_too_old or now >= self.ends_at


class Sessions:
    """All sessions of a console. When there are too many, one of who has the most ends."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._by_cookie: dict[str, Session] = {}
        self._has_begun = asyncio.Event()

    async def begin(
        self, connections: BrokerConnections, user: str | None, lifetime_s: float = math.inf
    ) -> Session:
        """A new session, which ends after `lifetime_s` at the latest."""
        while len(self._by_cookie) >= _SESSIONS_MAX:
            await self.end(self._least_missed())
        now = self._now()
        session = Session(connections, user, begun_at=now, used_at=now, ends_at=now + lifetime_s)
        others = (each for each in self._by_cookie.values() if each.owner == session.owner)
        session.free = next((each.free for each in others), session.free)
        self._by_cookie[session.cookie] = session
        self._has_begun.set()
        return session

    def _least_missed(self) -> Session:
        """The session longest unused of those whose user has the most."""
        counts = Counter(each.owner for each in self._by_cookie.values())
        return min(self._by_cookie.values(), key=lambda each: (-counts[each.owner], each.used_at))

    def find(self, cookie: str | None) -> Session | None:
        """The live session with this cookie."""
        session = self._by_cookie.get(cookie or "")
        if session is None or session.is_over(self._now()):
            return None
        return session

    def use(self, session: Session) -> None:
        """Note that someone uses a session, which keeps it from ending as idle."""
        session.used_at = self._now()

    def left_s(self, session: Session) -> float:
        """How long a session lasts yet, at most."""
        return max(session.ends_at - self._now(), 0.0)

    async def end(self, session: Session) -> None:
        if self._by_cookie.pop(session.cookie, None) is not None:
            await session.connections.close()

    async def end_those_over(self) -> None:
        """End the sessions that were idle, or lasted, for too long."""
        now = self._now()
        for each in [each for each in self._by_cookie.values() if each.is_over(now)]:
            await self.end(each)

    async def end_all(self) -> None:
        for each in list(self._by_cookie.values()):
            await self.end(each)

    @contextlib.asynccontextmanager
    async def swept(self) -> AsyncIterator[None]:
        """End sessions that are over while this lasts, and all of them at its end."""

        async def sweep() -> None:
            while True:
                soonest_s = min(map(self.left_s, self._by_cookie.values()), default=_SWEEP_S)
                self._has_begun.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._has_begun.wait(), min(soonest_s, _SWEEP_S))
                await self.end_those_over()

        sweeping = asyncio.create_task(sweep())
        try:
            yield
        finally:
            sweeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sweeping
            await self.end_all()
