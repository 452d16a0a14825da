"""Drives a membership: sends the requests that it decides on, and waits when none is due.

One request is in flight at a time. This is the only part of the membership that awaits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, Protocol

from drumlin.client.consumer.membership.membership import Leave, Wait
from drumlin.peer.peer_error import AuthenticationFailed, PeerError, UnsupportedByBroker
from drumlin.wire.error_codes import ErrorCode, KafkaError

#: The answers to `leave` of one that is no member any more, or was never made one.
NO_MEMBER: Final = frozenset({ErrorCode.unknown_member_id, ErrorCode.group_id_not_found})


class GroupProtocolDriver(Protocol):
    """One of the two protocols. `membership` is its state machine."""

    membership: Any

    async def perform(self, step: Any) -> None:
        """Send the request of `step`, and report the response to the membership."""

    async def leave(self, step: Leave) -> None:
        """Tell the group that this member leaves."""


class Driver:
    """The driver, used in the loop. `on_change` is called if the user's thread may have to act."""

    def __init__(self, protocol: GroupProtocolDriver, on_change: Callable[[], None]) -> None:
        self._protocol = protocol
        self._on_change = on_change
        self._woken = asyncio.Event()
        self.error: BaseException | None = None
        self._task = asyncio.ensure_future(self._run())

    def wake(self) -> None:
        """Ask the membership for its next step now: something other than a response changed it."""
        self._woken.set()

    async def stop(self) -> None:
        """Send no more requests."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            while True:
                self._woken.clear()
                step = self._protocol.membership.next_step(_now())
                if isinstance(step, Wait):
                    await self._wait(step.until)
                else:
                    await self._perform(step)
                self._on_change()
        except Exception as error:  # noqa: BLE001 - raised by the next poll
            self.error = error
            self._on_change()

    async def _perform(self, step: Any) -> None:
        membership = self._protocol.membership
        try:
            if isinstance(step, Leave):
                await self._protocol.leave(step)
                membership.left()
            else:
                await self._protocol.perform(step)
        except (UnsupportedByBroker, AuthenticationFailed):
            raise
        except KafkaError as error:
            membership.refused(step, error.code, _now())
        except PeerError:
            membership.unanswered(step, _now())

    async def _wait(self, until: float | None) -> None:
        if until is None or until == float("inf"):
            await self._woken.wait()
            return
        try:
            async with asyncio.timeout_at(until):
                await self._woken.wait()
        except TimeoutError:
            pass


def _now() -> float:
    return asyncio.get_running_loop().time()
