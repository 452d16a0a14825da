"""A TLS handshake: waits for the peer until the channel is open, or the handshake fails.

It takes up to half a millisecond of processor time, so each of its steps has a place in the queue
of all connections that have more to do: a thousand peers that come at once do not stop the loop.
A step with many certificates of the peer takes longer. It is made in a thread, and the loop leaves
the channel alone meanwhile.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

from drumlin.broker.net.channel import Channel, LongStep
from drumlin.turns import Rounds

#: The time that a refused peer has to read the alert.
_LINGER_S: Final = 1.0


class Handshake:
    """One peer's handshake. It owns the channel until that is open."""

    def __init__(
        self,
        channel: Channel,
        rounds: Rounds,
        thread: Executor,
        *,
        on_open: Callable[[Handshake, Channel], None],
        on_end: Callable[[Handshake, Exception | str | None], None],
    ) -> None:
        """`thread`: makes long steps.

        One of the two is called: `on_open` with the open channel, or `on_end` with the reason
        why the handshake has ended without one.
        """
        self.peer_host = channel.peer_host
        self._channel = channel
        self._rounds = rounds
        self._thread = thread
        self._long_step: asyncio.Future[None] | None = None  # while the thread makes it
        self._on_open, self._on_end = on_open, on_end
        self._loop = asyncio.get_running_loop()
        self._is_over = False
        self._forget: Callable[[], object] | None = None  # stops waiting
        self._wait()

    def _go_on_later(self) -> None:
        channel = self._channel
        if channel.keeps_bytes() and not channel.receiving_needs_room:
            self._rounds.add(self._go_on)  # the loop would not tell of them
        else:
            self._wait()

    def _wait(self) -> None:
        descriptor = self._channel.fileno()
        if self._channel.receiving_needs_room:
            self._loop.add_writer(descriptor, self._on_ready)
            self._forget = lambda: self._loop.remove_writer(descriptor)
        else:
            self._loop.add_reader(descriptor, self._on_ready)
            self._forget = lambda: self._loop.remove_reader(descriptor)

    def _stop_waiting(self) -> None:
        if self._forget is not None:
            self._forget()
            self._forget = None

    def _on_ready(self) -> None:
        self._stop_waiting()
        self._rounds.add(self._go_on)

    def _go_on(self) -> None:
        if self._is_over:
            return
        self._after(lambda: self._channel.shake_hands(may_be_long=False))

    def _make_long_step(self) -> None:
        step = self._loop.run_in_executor(self._thread, self._channel.shake_hands)
        step.add_done_callback(self._on_long_step)
        self._long_step = step

    def _on_long_step(self, step: asyncio.Future[None]) -> None:
        self._long_step = None
        if self._is_over:
            step.cancelled() or step.exception()  # nobody waits for it
            self._channel.close()
        else:
            self._after(step.result)

    def _after(self, step: Callable[[], None]) -> None:
        """Go on as the step has ended."""
        try:
            step()
        except LongStep:
            self._make_long_step()
        except BlockingIOError:
            self._go_on_later()
        except ssl.SSLError as error:
            self._refuse(error)
        except OSError as error:
            self.close(error)
        else:
            self._is_over = True
            self._on_open(self, self._channel)

    def _refuse(self, error: ssl.SSLError) -> None:
        """Give the peer time to read the alert: closing with unread bytes would reset the
        connection.
        """
        descriptor = self._channel.fileno()
        timer = self._loop.call_later(_LINGER_S, self.close, error)

        def forget() -> None:
            timer.cancel()
            self._loop.remove_reader(descriptor)

        self._channel.end_sending()
        self._loop.add_reader(descriptor, self._drain, error)
        self._forget = forget

    def _drain(self, error: ssl.SSLError) -> None:
        if self._channel.is_drained():
            self.close(error)

    def close(self, reason: Exception | str | None) -> None:
        """End the handshake, unless it is over."""
        if self._is_over:
            return
        self._is_over = True
        self._stop_waiting()
        if self._long_step is None:
            self._channel.close()
        self._on_end(self, reason)
