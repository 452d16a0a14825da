"""One client's connection: receives requests, and sends responses in the same order.

It uses a channel and the loop's readiness callbacks instead of an asyncio transport: requests are
received directly into their final memory, and slices of log files are sent by `sendfile` as soon as
the socket takes them.

Limits:
- the memory of large requests is counted in a `RequestMemory`; peers that are not authenticated
  yet (strangers) share one, and all others share another;
- while a megabyte of answers waits for earlier ones, no further request is started;
- at most `_IN_FLIGHT_MAX` requests are started and not yet answered on the wire; then nothing more
  is read, and TCP makes the client wait;
- a request that has not made all of its changes holds back the next ones until it is answered, as
  every request does in Apache Kafka.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from drumlin.broker.loop.later import GivingUp, Later, LaterParts, Parts, release
from drumlin.broker.net.channel import Channel
from drumlin.broker.net.door import UNKNOWN_SOFTWARE, Door
from drumlin.broker.net.muting import Muting
from drumlin.broker.net.outbox import Outbox, Wanted
from drumlin.broker.net.request_memory import RequestMemory
from drumlin.broker.net.request_sizes import request_bytes_max, stranger_bytes_max
from drumlin.broker.net.slot import Slot
from drumlin.broker.rights.session import NOBODY, Session
from drumlin.broker.traffic.timing import Timed, Timing
from drumlin.peer.connection import Address
from drumlin.turns import Rounds, begin_turn, is_long_turn
from drumlin.wire.error_codes import KafkaError, MalformedMessage
from drumlin.wire.frames import FrameReader

_log = logging.getLogger(__name__)
_IN_FLIGHT_MAX: Final = 64
#: Requests of a connection are not counted while their total size is below this.
_COUNTED_FROM_BYTES: Final = 64 * 1024
#: While more bytes of answers wait for a slow one, no further request is started.
_ANSWERED_BYTES_MAX: Final = 1 << 20
_READS_PER_TURN: Final = 8
#: A peer is not slow if this many bytes from it have arrived but are not read.
_SENT_AHEAD_BYTES: Final = 16 * 1024


class Dispatcher(Protocol):
    """Starts the requests of connections: the router."""

    #: The queue of connections that have more requests than they may start in one turn.
    rounds: Rounds
    #: The line of connections that were muted.
    unmuted: Rounds
    #: Cancels answers of closed connections.
    giving_up: GivingUp

    def is_prepared(self, frame: memoryview, go_on: Callable[[], None]) -> bool:
        """Whether the request can be dispatched; if not, `go_on` is called when it can."""

    def dispatch(self, connection: Connection, frame: memoryview) -> Parts | LaterParts | None:
        """Start one request; None if it gets no answer.

        Raises:
            MalformedMessage: the connection has to be closed.
        """

    def finish_woken(self) -> None:
        """Answer the waiting fetches that newly started requests have unblocked."""

    async def reading(self, read: Callable[[], None]) -> None:
        """Run `read`, which needs the disk, in a thread."""


class Connection:
    """Reads requests, passes them to the router and sends the answers, until `close`."""

    def __init__(
        self,
        channel: Channel,
        router: Dispatcher,
        *,
        memory: RequestMemory,
        scratch: bytearray,
        max_frame_bytes: int,
        door: Door,
        on_let_in: Callable[[Connection], None],
        on_close: Callable[[Connection], None],
    ) -> None:
        self._channel = channel
        #: Starts requests, from the next one on.
        self.router = router
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader(
            max_frame_bytes,
            scratch=scratch,
            has_plenty=memory.has_plenty,
            limit_of=stranger_bytes_max,
        )
        self._outbox = Outbox(channel)
        self._memory = memory
        self._in_flight_bytes = 0  # of requests that are started and not answered
        self._answered_bytes = 0  # of answers that wait for earlier answers
        self.received_bytes = 0
        self._counted = False  # whether the shared budget counts this connection
        self._backlog: deque[memoryview] = deque()  # frames received and not yet started
        self._slots: deque[Slot] = deque()  # started and not yet handed to the outbox
        self._on_let_in, self._on_close = on_let_in, on_close
        self._reading = False
        self._writing = False
        self._is_finishing = False
        self._will_go_on = self._will_send = self._will_read = False
        self._awaits_preparation = False  # the next request cannot be dispatched yet
        self._muted = Muting(self._unmuted, router.unmuted)
        #: Whether another broker replicates over this connection.
        self.is_replicas = False
        self.software = UNKNOWN_SOFTWARE
        #: The session of requests; its principal is NOBODY until the peer is authenticated.
        self.session = Session(NOBODY, channel.peer_host, door.listener)
        self.closed = False
        self.last_active = self._loop.time()
        self.listener, self.counts = door.listener, door.counts
        self._timing = Timing(self.counts, self.last_active)
        self.peer_host, self.peer_port = channel.peer_host, channel.peer_port
        self._when_closed: list[Callable[[], None]] = []
        door.greet(self, channel)
        self.resume_reading()

    def let_in(self, session: Session) -> None:
        """Accept requests of any kind, from the session's principal."""
        self.session = session
        self._reader.limit_of = request_bytes_max
        self._channel.let_in()
        self._on_let_in(self)

    def count_in(self, memory: RequestMemory) -> None:
        """Use this memory budget from now on, instead of that of strangers."""
        self._memory.forget(self)
        self._counted, self._memory = False, memory
        self._reader.has_plenty = memory.has_plenty

    @property
    def is_stranger(self) -> bool:
        """Whether the peer is not authenticated yet."""
        return self.session.principal == NOBODY

    # -- receiving ---------------------------------------------------------------------

    def resume_reading(self) -> None:
        """Resume reading, unless requests that were read have to be started first."""
        if self._reading or self.closed or self._is_finishing or self._muted:
            return
        if not self._backlog and len(self._slots) < _IN_FLIGHT_MAX:
            self._loop.add_reader(self._channel.fileno(), self._on_readable)
            self._reading = True
            self._read_kept()

    def _pause_reading(self) -> None:
        if self._reading:
            self._loop.remove_reader(self._channel.fileno())
            self._reading = False

    def mute(self, throttle_ms: int) -> None:
        """Read nothing and start no request for this time; started requests are answered."""
        if not self.closed and self._muted.begin(throttle_ms):
            self._pause_reading()

    def _unmuted(self) -> None:
        self.last_active = self._loop.time()
        self._start_requests()

    def _read_kept(self) -> None:
        """Read soon the bytes that the channel keeps: the loop does not report them as readable."""
        if not self._will_read and self._channel.keeps_bytes():
            self._will_read = True
            self.router.rounds.add(self._on_kept)

    def _on_kept(self) -> None:
        self._will_read = False
        if self._reading:
            self._on_readable()

    def _await_channel(self) -> None:
        if self._channel.receiving_needs_room:
            self._pause_reading()  # or the loop would call for ever
            self._wait_until_writable(True)
        else:
            self.resume_reading()

    def _on_readable(self) -> None:
        self.last_active = self._loop.time()
        try:
            for _ in range(_READS_PER_TURN):
                memory = self._reader.buffers()
                count = self._channel.receive_into(memory)
                if count == 0:
                    self.close(None)
                    return
                self.received_bytes += count
                self._backlog.extend(self._reader.received(count))
                if self._backlog or count < sum(map(len, memory)) or not self._within_budget():
                    break
        except (BlockingIOError, InterruptedError):
            self._await_channel()
        except (MalformedMessage, OSError) as error:
            self.close(error)
            return
        if self._backlog:
            self._timing.arrived(self.last_active)
            self._start_requests()
        elif not self._within_budget():
            self._pause_reading()
        if self._reading:
            self._read_kept()

    def _within_budget(self) -> bool:
        """Report this connection's memory to the budget; False if it must wait for others."""
        reader = self._reader
        if not (self._counted or self._backlog or self._in_flight_bytes or reader.held_bytes):
            return True
        complete = self._in_flight_bytes + sum(map(len, self._backlog))
        held = complete + reader.held_bytes
        if held < _COUNTED_FROM_BYTES:
            if not self._counted:
                return True
            held = 0
        self._counted = held > 0
        return self._memory.hold(self, held, complete + reader.announced_bytes)

    @property
    def sent_bytes(self) -> int:
        """Bytes sent to the peer since the connection began."""
        return self._outbox.sent_bytes

    @property
    def moved_bytes(self) -> int:
        """Bytes received from the peer and sent to it since the connection began."""
        return self.received_bytes + self.sent_bytes

    @property
    def awaits_peer(self) -> bool:
        """Whether memory can only be freed here once the peer sends or takes something."""
        if self._muted:  # the wait is its own fault: others must not wait for its memory
            return True
        if self._backlog:
            slots = self._slots
            if self._awaits_preparation:
                return False
            return not slots or slots[-1].lets_pass or slots[-1].done
        missing = self._reader.missing_bytes
        # What has arrived may be read only when other connections free memory.
        return missing > 0 and self._channel.unread_bytes() < min(missing, _SENT_AHEAD_BYTES)

    # -- requests ----------------------------------------------------------------------

    def _start_requests(self) -> None:
        """Start the requests that may start, then send the answers that are ready."""
        try:
            ends_at, now_s = begin_turn(self._loop), time.monotonic()
            while self._backlog and self._may_start() and now_s < ends_at:
                if not self.router.is_prepared(self._backlog[0], self._prepared):
                    self._awaits_preparation = True
                    break
                frame = self._backlog.popleft()
                answer = self.router.dispatch(self, frame)
                began_s, now_s = now_s, time.monotonic()
                if isinstance(answer, Later):
                    self._await(answer, frame, self._timing.begun(frame, began_s, now_s))
                elif self._slots:
                    timed = self._timing.begun(frame, began_s, now_s)
                    self._answered(self._new_slot(None, frame, timed), answer)
                else:  # it is ready, and all earlier answers are sent
                    if answer:
                        self._outbox.put(answer)
                    self._timing.answered_at_once(frame, began_s, now_s)
            self.router.finish_woken()
            self._send()
            if not self.closed:
                self._read_on_or_pause()
        except MalformedMessage as error:
            self._send(is_our_turn=True)  # the answers before it
            self.close(error)
        except Exception as error:  # noqa: BLE001  a peer that waits for ever would be worse
            self._fail(error)

    def _read_on_or_pause(self) -> None:
        is_within_budget = self._within_budget()
        if self._backlog or len(self._slots) >= _IN_FLIGHT_MAX or not is_within_budget:
            self._pause_reading()
        else:
            self.resume_reading()
        if self._backlog and self._may_start() and not self._will_go_on:
            # Requests are left, as other connections have their turn first, or as the outbox was
            # full before sending; nothing else would start them.
            self._will_go_on = True
            self.router.rounds.add(self._go_on)

    def _go_on(self) -> None:
        self._will_go_on = False
        if not self.closed:
            self._start_requests()

    def _prepared(self) -> None:
        """Start the next request, which can be dispatched now."""
        self._awaits_preparation = False
        if not self.closed:
            self._start_requests()

    def _may_start(self) -> bool:
        if self._awaits_preparation or self._muted:
            return False
        if self._outbox.is_full or self._answered_bytes > _ANSWERED_BYTES_MAX:
            return False
        slots = self._slots
        if not slots:
            return True
        return len(slots) < _IN_FLIGHT_MAX and (slots[-1].lets_pass or slots[-1].done)

    def _new_slot(self, later: LaterParts | None, frame: memoryview, timed: Timed) -> Slot:
        """A place for an answer that is not ready, or that has to wait for earlier ones."""
        slot = Slot(later, len(frame), timed)
        self._in_flight_bytes += len(frame)
        self._slots.append(slot)
        return slot

    def _await(self, later: LaterParts, frame: memoryview, timed: Timed) -> None:
        later.when_settled(partial(self._settled, self._new_slot(later, frame, timed)))

    def _settled(self, slot: Slot, later: LaterParts) -> None:
        """Handle a settled answer, perhaps while another connection is being served."""
        try:
            parts = later.result()
        except MalformedMessage as error:
            self.close(error)
        except Exception as error:  # noqa: BLE001  as in `_start_requests`
            self._fail(error)
        else:
            self._answered(slot, parts)
            self._start_requests()

    def _answered(self, slot: Slot, parts: Parts | None) -> None:
        """Keep an answer until those before it are sent."""
        slot.parts, slot.done = parts, True
        if slot.later is not None:
            slot.timed = self._timing.answered(slot.timed)
        slot.answer_bytes = sum(len(part) for part in parts or () if not hasattr(part, "fileno"))
        self._answered_bytes += slot.answer_bytes

    # -- sending -----------------------------------------------------------------------

    def _send(self, *, is_our_turn: bool = False) -> None:
        slots = self._slots
        while slots and slots[0].done:
            slot = slots.popleft()
            self._in_flight_bytes -= slot.request_bytes
            self._answered_bytes -= slot.answer_bytes
            if slot.parts:
                self._outbox.put(slot.parts)
            self._timing.ready(slot.timed)
        self._flush(is_our_turn=is_our_turn)

    def _flush(self, *, is_our_turn: bool = False) -> None:
        if self._will_send and not is_our_turn:
            return
        if not is_our_turn and is_long_turn(self._loop) and self._outbox.holds_much:
            # Very many connections may be ready to send at the same time, so each waits for its
            # turn.
            self._will_send = True
            self._wait_until_writable(False)
            self.router.rounds.add(self._send_in_turn)
            return
        try:
            drained = self._outbox.flush()
        except OSError as error:
            is_of_socket = isinstance(error, ConnectionError)
            suspect = None if is_of_socket else self._outbox.lend_suspect()
            if suspect is not None:
                self._loop.create_task(self._bring(suspect))
            self.close(error)
            return
        except KafkaError as error:
            self.close(error)
            return
        self._timing.sent(drained)
        if drained and self._is_finishing and not self._slots:
            self.close(None)
            return
        cold = None if drained else self._outbox.lend_cold()
        if cold is not None:
            self._loop.create_task(self._bring(cold))
        self._wait_until_writable(not drained and not self._outbox.awaits_disk)

    def _wait_until_writable(self, waits: bool) -> None:
        waits = waits or self._channel.receiving_needs_room
        if waits and not self._writing:
            self._loop.add_writer(self._channel.fileno(), self._on_writable)
        elif self._writing and not waits:
            self._loop.remove_writer(self._channel.fileno())
        self._writing = waits

    async def _bring(self, cold: Wanted) -> None:
        """Read bytes of a file in a thread.

        Either they have left the page cache while they waited, or sending them has failed: then
        reading shows whether their device has failed.
        """
        try:
            await self.router.reading(cold.bring)
        except KafkaError as error:
            self.close(error)
        finally:
            self._outbox.take_back()
        self._go_on_sending()

    def _on_writable(self) -> None:
        self.last_active = self._loop.time()
        if self._channel.receiving_needs_room:
            self._channel.receiving_needs_room = False
            self._wait_until_writable(False)
            self.resume_reading()
            if not self._muted:
                self._on_readable()
        self._go_on_sending()

    def _send_in_turn(self) -> None:
        self._will_send = False
        self._go_on_sending(is_our_turn=True)

    def _go_on_sending(self, *, is_our_turn: bool = False) -> None:
        """Send, then start requests that waited for room for their answers."""
        if not self.closed:
            self._flush(is_our_turn=is_our_turn)
        if not self.closed and self._backlog:
            self._start_requests()

    # -- the end -----------------------------------------------------------------------

    def tell_when_closed(self, told: Callable[[], None]) -> None:
        """Call `told` when the connection closes, or at once if it has closed, as may happen while
        a handler gives way.
        """
        if self.closed:
            told()
        else:
            self._when_closed.append(told)

    @property
    def awaits_us(self) -> bool:
        """Whether the peer waits for an answer that is not ready, and so is not idle."""
        return bool(self._slots) or self._awaits_preparation or bool(self._muted)

    def finish(self) -> None:
        """Start no more requests, and close when all started ones are answered."""
        self._is_finishing = True
        self._backlog.clear()
        self._pause_reading()
        self._send()

    @property
    def _peer(self) -> Address:
        return Address(self.peer_host, self.peer_port)

    def _fail(self, error: Exception) -> None:
        """Close after an unexpected error, which cannot be answered."""
        _log.error("a request of %s failed", self._peer, exc_info=error)
        self.close(None)

    def close(self, reason: Exception | str | None) -> None:
        """Close at once; `reason` is logged unless the peer just went away."""
        if self.closed:
            return
        self.closed = True
        if reason is not None and not isinstance(reason, ConnectionError):
            _log.warning("closed %s: %s", self._peer, reason)
        self._pause_reading()
        self._muted.close()
        self._wait_until_writable(False)
        for slot in self._slots:
            if slot.later is not None and not slot.done:
                self.router.giving_up.add(slot.later)
            release(slot.parts)
        self._slots.clear()
        self._backlog.clear()
        self._timing.sent(is_drained=True)
        self.counts.left(self.received_bytes, self.sent_bytes)
        self._outbox.close()
        self._channel.close()
        if self._counted:
            self._memory.forget(self)
        self._on_close(self)
        for told in self._when_closed:
            try:
                told()
            except Exception:  # noqa: BLE001  the others must be called all the same
                _log.exception("something that ended with a connection failed")
