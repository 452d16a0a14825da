"""Management of one broker's process: starting, watching and restarting it.

Owns the process and the channel to it. Decides nothing about other brokers.

A broker is never replaced while its process may still act: a process that hangs is killed first.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from drumlin.broker.machine.greeting import EXIT_FAILED, READY, USED, Greeting, greet
from drumlin.broker.start.announcements import NOTIFY_SOCKET
from drumlin.metadata.shared.channel import Channel

if TYPE_CHECKING:
    from drumlin.metadata.shared.authority import Authority

_log = logging.getLogger(__name__)

#: The pause between the end of a process and the next start; it doubles up to the second value.
_FIRST_PAUSE_S: Final = 0.1
_LAST_PAUSE_S: Final = 15.0
#: A process that has run this long resets the pause.
_GOOD_S: Final = 60.0
#: The time that a process has to end after closing its channel.
_END_S: Final = 5.0
#: Prefixes of variables that a server reads (`config/sources.py`), here or in Kafka's images.
_OF_SETTINGS: Final = ("DRUMLIN_", "KAFKA_")
_MODULE: Final = "drumlin.broker.machine.worker"


class NotStarted(Exception):
    """A broker has ended before it was ever ready. If there is no message, the broker has logged
    the reason.
    """


class Worker:
    """One broker of the machine, in one process after the other."""

    def __init__(
        self,
        node_id: int,
        properties: Mapping[str, str],
        brokers: int,
        log_level: str,
        locks: Mapping[str, int],
        secret: str,
        authority: Authority,
        silent_after_s: float,
        relay: Callable[[int, Any], None],
    ) -> None:
        """
        Args:
            silent_after_s: a broker that is silent for this long is considered dead.
            relay: takes what clients have used at this broker, to tell it to the others.
        """
        self.node_id = node_id
        self._greeting = Greeting(
            dict(properties), brokers, log_level, os.getpid(), dict(locks), secret
        )
        self._authority = authority
        self._silent_after_s = silent_after_s
        self._relay = partial(relay, node_id)
        self._process: asyncio.subprocess.Process | None = None
        self._stop = asyncio.Event()
        #: The broker's addresses; pending until it is ready for the first time.
        self.addresses: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        #: The channel to the process; None until that is ready.
        self.channel: Channel | None = None

    async def run(self) -> int:
        """Run the broker until it is stopped; returns the exit code of its last process.

        Raises:
            NotStarted: the broker has ended before it was ever ready.
        """
        pause_s = _FIRST_PAUSE_S
        while True:
            began, code = time.monotonic(), EXIT_FAILED
            try:
                code = await self._run_once()
                ended = _ended(self.node_id, code)
            except OSError as error:
                ended = f"broker {self.node_id}: no process can be started: {error}"
            if self._stop.is_set():
                return code
            if not self.addresses.done():
                # A broker that gives up logs the reason.
                has_said = ended == _ended(self.node_id, EXIT_FAILED)
                raise NotStarted("" if has_said else ended)
            if time.monotonic() - began > _GOOD_S:
                pause_s = _FIRST_PAUSE_S
            _log.error("%s; it is started again", ended)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._stop.wait()
                    return code
            pause_s = min(2 * pause_s, _LAST_PAUSE_S)

    async def _run_once(self) -> int:
        """
        Raises:
            OSError: no process can be started now.
        """
        ours, theirs = socket.socketpair()
        with ours, theirs:
            process = self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *_isolation(),
                "-m",
                _MODULE,
                str(self.node_id),
                str(theirs.fileno()),
                stdin=asyncio.subprocess.DEVNULL,
                env=_environment(),
                pass_fds=(theirs.fileno(), *self._greeting.locks.values()),
            )
            theirs.close()
            with contextlib.suppress(OSError):  # the process has ended, which is noticed next
                await asyncio.to_thread(greet, ours, self._greeting)
            channel = await Channel.open(ours.dup())
        return await self._attend(process, channel)

    async def _attend(self, process: asyncio.subprocess.Process, channel: Channel) -> int:
        """Serve the channel until it or the process ends, then wait until both have ended."""
        if self._stop.is_set():
            self.terminate()
        channel.take(READY, lambda addresses: self._is_ready(channel, addresses))
        channel.take(USED, self._relay)
        self._authority.connect(self.node_id, channel)
        has_ended = asyncio.Event()
        channel.start(has_ended.set)
        channel.watch(self._silent_after_s, partial(self._hangs, has_ended))
        ending = asyncio.create_task(process.wait())
        ended = asyncio.create_task(has_ended.wait())
        try:
            await asyncio.wait({ending, ended}, return_when=asyncio.FIRST_COMPLETED)
            # Without its channel the process no longer counts as a broker, even if it is still
            # running.
            self.channel = None
            await self._authority.disconnect(self.node_id)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_END_S):
                    return await asyncio.shield(ending)
            self.kill()
            return await ending
        finally:
            ended.cancel()
            self._process = None

    def _hangs(self, has_ended: asyncio.Event, is_silent: bool) -> None:
        if is_silent:
            _log.error(
                "broker %d hangs: it was not heard for %g s, and is killed",
                self.node_id,
                self._silent_after_s,
            )
            self.kill()  # so that it acknowledges nothing after others have taken over
            has_ended.set()

    def _is_ready(self, channel: Channel, addresses: Any) -> None:
        self.channel = channel
        if not self.addresses.done():
            self.addresses.set_result(addresses)
        else:
            _log.info("broker %d is ready again", self.node_id)

    def stop(self) -> None:
        """Stop the broker cleanly, for good."""
        self._stop.set()
        self.terminate()

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def renew(self) -> None:
        """Have the broker read its certificates again, unless it is still starting."""
        if self.channel is not None:
            self._signal(signal.SIGHUP)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)


def _isolation() -> list[str]:
    """Interpreter options that prevent imports from the working directory, unless this process
    allows these.
    """
    return [] if sys.path[0] in ("", str(Path.cwd())) else ["-P"]


def _environment() -> dict[str, str]:
    """The environment without variables that may have settings, which can be secrets: a broker
    gets its settings from its greeting. The service manager is told by this process alone.
    """
    left_out = (*_OF_SETTINGS, NOTIFY_SOCKET)
    return {name: text for name, text in os.environ.items() if not name.startswith(left_out)}


def _ended(node_id: int, code: int) -> str:
    how = f"was killed by signal {-code}" if code < 0 else f"has ended with {code}"
    return f"broker {node_id} {how}"
