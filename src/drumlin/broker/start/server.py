"""Listening sockets: accepts connections, limits their number, closes idle ones.

Owns the set of open connections. Knows nothing of requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import resource
import socket
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from drumlin.addresses import plain_address
from drumlin.broker.login.doors import Door
from drumlin.broker.net.channel import Channel, NotLetIn
from drumlin.broker.net.connection import Connection, Dispatcher
from drumlin.broker.net.handshake import Handshake
from drumlin.broker.net.handshake_failures import why_failed
from drumlin.broker.net.request_memory import RequestMemory
from drumlin.broker.quotas.connection_rates import ConnectionRates
from drumlin.broker.rights.audit import AUDIT
from drumlin.broker.start.startup import BoundSockets, cannot_listen
from drumlin.broker.traffic.listener_counts import ListenerCounts
from drumlin.peer.security.secret import Secret
from drumlin.ready_threads import ready_threads
from drumlin.wire.frames import SCRATCH_BYTES

_log = logging.getLogger(__name__)
_ACCEPTS_PER_TURN: Final = 16
_SHORT: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_ACCEPT_PAUSE_S: Final = 0.1
_SILENCE_S: Final = 60.0
#: This many descriptors, or an eighth of all if that is less, are never used for connections: the
#: broker's own files must not have to wait for clients to disconnect.
_RESERVE_MAX: Final = 64
#: The minimum backlog of connections waiting to be accepted: those that do not fit retry after a
#: second, then at growing intervals.
_WAITING_MIN: Final = 1024
#: The maximum number of strangers (peers that are not authenticated yet).
_STRANGERS_MAX: Final = 2000
#: Strangers have their own memory for requests: this fraction of `request_memory_bytes`.
_STRANGERS_PART: Final = 20
_STRANGER_S: Final = 30.0
#: The maximum number of addresses whose refusals are counted separately.
_REFUSED_MAX: Final = 1000
_OTHER_ADDRESSES: Final = "another address"
#: Connections that are kept for a moment before they are closed.
_WAITING_TO_LEAVE_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The values of Kafka's keys of the same names; an idle time of 0 means never."""

    max_connections: int
    max_connections_of_listeners: dict[str, int]
    #: It is under its own limit alone: clients must not keep brokers out.
    listener_of_brokers: str | None
    max_connections_per_ip: int
    max_connections_per_ip_overrides: dict[str, int]
    connections_max_idle_ms: int
    socket_request_max_bytes: int
    socket_send_buffer_bytes: int
    socket_receive_buffer_bytes: int
    socket_listen_backlog_size: int
    request_memory_bytes: int

    def per_ip(self, host: str) -> int:
        overrides = self.max_connections_per_ip_overrides
        if not overrides:
            return self.max_connections_per_ip
        return overrides.get(plain_address(host), self.max_connections_per_ip)


class Server:
    """Accepts and keeps the connections of all listeners."""

    def __init__(
        self,
        router: Dispatcher,
        limits: ConnectionLimits,
        rates: ConnectionRates,
        bound: BoundSockets,
        doors: Mapping[str, Door],
    ) -> None:
        """`doors`: the doors of listeners, by name."""
        self._router = router
        self._doors = doors
        self.limits = limits
        self._rates = rates
        self._waiting_to_leave: set[socket.socket] = set()
        self._sockets = dict(bound)
        self._memory = RequestMemory(limits.request_memory_bytes)
        # Separate, so that strangers take no memory from authenticated peers.
        self._memory_of_strangers = RequestMemory(limits.request_memory_bytes // _STRANGERS_PART)
        # One of their own, so that strangers take no more than one processor.
        self._thread_of_handshakes = ready_threads(1, "handshakes")
        self._scratch = bytearray(SCRATCH_BYTES)  # shared: all connections receive into it
        self._connections: set[Connection] = set()
        #: Peers that are not authenticated yet, with the time when each came, in that order.
        self._strangers: dict[Handshake | Connection, float] = {}
        self._has_none = asyncio.Event()
        self._count = 0  # of connections and handshakes
        self._per_ip: Counter[str] = Counter()
        self._refusals: Counter[str] = Counter()
        #: Whether clients can connect.
        self.is_accepting = False
        self._silent_until = 0.0  # until then, shortages that prevent accepting are not logged

    def start_accepting(self) -> None:
        """Accept clients on all addresses.

        Raises:
            StartFailed: another process listens there already.
        """
        loop = asyncio.get_running_loop()
        for sock, listener in self._sockets.items():
            try:
                sock.listen(max(_WAITING_MIN, self.limits.socket_listen_backlog_size))
            except OSError as error:
                raise cannot_listen(listener, error) from error
            loop.add_reader(sock.fileno(), self._accept, sock)
        self.is_accepting = True

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                sock, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _SHORT:
                    raise
                self._pause_accepting(listening, error)
                return
            # A new descriptor has the lowest free number, which shows how many are in use.
            is_last = sock.fileno() >= _connections_end()
            refusal, pause_ms = self._refusal(listening, address[0]), 0
            if refusal is None:
                pause_ms = self._take(sock, listening, address[0])
            else:
                self._refused(listening, address[0], refusal)
                sock.close()
            if pause_ms:
                self._accept_later(listening, pause_ms / 1000)
                return
            if is_last:
                self._pause_accepting(listening, OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
                return

    def _pause_accepting(self, listening: socket.socket, error: OSError) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() >= self._silent_until:
            self._silent_until = loop.time() + _SILENCE_S
            _log.error("cannot accept connections: %s; trying again all the time", error.strerror)
        self._accept_later(listening, _ACCEPT_PAUSE_S)

    def _accept_later(self, listening: socket.socket, pause_s: float) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening.fileno())
        loop.call_later(pause_s, self._resume_accepting, listening)

    def _take(self, sock: socket.socket, listening: socket.socket, host: str) -> int:
        """Admit a connection, unless there are too many new ones from its address; returns the time
        for which to accept no other, in ms.
        """
        now_ms = int(asyncio.get_running_loop().time() * 1000)
        delay_ms = self._rates.delay_ms(host, now_ms)
        if delay_ms:
            self._refused(
                listening, host, "the quota connection_creation_rate of its address is used up"
            )
            self._turn_back(sock, delay_ms)
            return 0
        self._admit(sock, listening, host)
        return self._rates.pause_ms(self._sockets[listening].name, now_ms)

    def _turn_back(self, sock: socket.socket, delay_ms: int) -> None:
        """Close a connection after a delay, as its client would connect again at once."""
        if len(self._waiting_to_leave) >= _WAITING_TO_LEAVE_MAX:
            sock.close()
            return

        def leave() -> None:
            self._waiting_to_leave.discard(sock)
            sock.close()

        self._waiting_to_leave.add(sock)
        asyncio.get_running_loop().call_later(delay_ms / 1000, leave)

    def _resume_accepting(self, listening: socket.socket) -> None:
        if listening not in self._sockets:
            return
        loop = asyncio.get_running_loop()
        try:
            if not _has_room():
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            loop.add_reader(listening.fileno(), self._accept, listening)
        except (OSError, MemoryError):
            loop.call_later(_ACCEPT_PAUSE_S, self._resume_accepting, listening)

    def _refusal(self, listening: socket.socket, host: str) -> str | None:
        limits, listener = self.limits, self._sockets[listening].name
        if self._count >= limits.max_connections and listener != limits.listener_of_brokers:
            return f"max.connections={limits.max_connections} reached"
        counts, own = (
            self._doors[listener].counts,
            limits.max_connections_of_listeners.get(listener),
        )
        if own is not None and counts.opened - counts.closed >= own:
            return f"listener.name.{listener.lower()}.max.connections={own} reached"
        allowed = limits.per_ip(host)
        if self._per_ip[host] >= allowed:
            return f"max.connections.per.ip={allowed} reached"
        return None

    def _refused(self, listening: socket.socket, host: str, why: str) -> None:
        self._doors[self._sockets[listening].name].counts.refused += 1
        self._log_refusal(host, why)

    def _log_refusal(self, host: str, why: str) -> None:
        # Log the first, and then each power of two: a flood must not fill a disk.
        if len(self._refusals) >= _REFUSED_MAX and host not in self._refusals:
            host = _OTHER_ADDRESSES
        self._refusals[host] += 1
        count = self._refusals[host]
        if count & (count - 1) == 0:
            _log.warning("refused a connection from %s (%d so far): %s", host, count, why)

    def _admit(self, sock: socket.socket, listening: socket.socket, host: str) -> None:
        door = self._doors[self._sockets[listening].name]
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self.limits.socket_send_buffer_bytes > 0:
                size = self.limits.socket_send_buffer_bytes
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
            channel = door.channel(sock, self._scratch)
        except OSError:  # the client disconnected before it was accepted
            sock.close()
            return
        self._per_ip[host] += 1
        self._count += 1
        door.counts.opened += 1
        if channel.is_open:
            self._connect(door, channel)
            return
        try:
            handshake = Handshake(
                channel,
                self._router.rounds,
                self._thread_of_handshakes,
                on_open=partial(self._opened, door),
                on_end=partial(self._turned_away, door),
            )
        except OSError:  # the loop cannot watch it
            self._give_up(door, channel)
            return
        self._add_stranger(handshake)

    def _connect(self, door: Door, channel: Channel) -> None:
        try:
            connection = Connection(
                channel,
                self._router,
                memory=self._memory_of_strangers,
                scratch=self._scratch,
                max_frame_bytes=self.limits.socket_request_max_bytes,
                door=door,
                on_let_in=self._let_in,
                on_close=self._forget,
            )
        except NotLetIn as refusal:
            self._log_refusal(channel.peer_host, str(refusal))
            AUDIT.failed_handshake(
                channel.peer_host, door.listener, "no rule has a name for its certificate"
            )
            door.counts.failed_handshakes += 1
            self._give_up(door, channel)
            return
        except OSError:  # the loop cannot watch it
            self._give_up(door, channel)
            return
        self._connections.add(connection)
        self._has_none.clear()
        if connection.is_stranger:
            self._add_stranger(connection)

    def _give_up(self, door: Door, channel: Channel) -> None:
        channel.close()
        self._leave(channel.peer_host, door.counts)

    def _opened(self, door: Door, handshake: Handshake, channel: Channel) -> None:
        self._strangers.pop(handshake, None)
        self._connect(door, channel)

    def _turned_away(
        self, door: Door, handshake: Handshake, reason: Exception | str | None
    ) -> None:
        """Forget a peer whose handshake has failed; it was dismissed if the reason is text."""
        self._strangers.pop(handshake, None)
        self._leave(handshake.peer_host, door.counts)
        if reason is None:
            return
        door.counts.failed_handshakes += 1
        if not isinstance(reason, (ConnectionError, str)):
            self._log_refusal(handshake.peer_host, f"the TLS handshake has failed: {reason}")
        AUDIT.failed_handshake(handshake.peer_host, door.listener, why_failed(reason))

    def _add_stranger(self, stranger: Handshake | Connection) -> None:
        """Wait for a peer to authenticate; if too many wait, close the one that came first."""
        self._strangers[stranger] = asyncio.get_running_loop().time()
        while len(self._strangers) > _STRANGERS_MAX:
            self._dismiss(next(iter(self._strangers)), "too many others wait as well")

    def _let_in(self, connection: Connection) -> None:
        connection.count_in(self._memory)
        self._strangers.pop(connection, None)

    def _dismiss(self, stranger: Handshake | Connection, why: str) -> None:
        self._log_refusal(stranger.peer_host, f"it has not shown who it is, and {why}")
        stranger.close(why if isinstance(stranger, Handshake) else None)

    def _forget(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self._strangers.pop(connection, None)
        if not self._connections:
            self._has_none.set()
        self._leave(connection.peer_host, connection.counts)

    def _leave(self, host: str, counts: ListenerCounts) -> None:
        self._count -= 1
        counts.closed += 1
        self._per_ip[host] -= 1
        if self._per_ip[host] <= 0:
            del self._per_ip[host]

    def traffic(self) -> dict[str, ListenerCounts]:
        """The counts of all listeners, by name, without the bytes of open connections."""
        return {name: door.counts for name, door in self._doors.items()}

    def certificates(self) -> dict[str, Secret]:
        """Certificate and key that each listener with TLS presents, as PEM."""
        return {name: door.tls.shown for name, door in self._doors.items() if door.tls is not None}

    @property
    def request_memory_bytes(self) -> int:
        """The memory that large requests hold now."""
        return self._memory.held_bytes + self._memory_of_strangers.held_bytes

    def open_connections(self) -> list[Connection]:
        """All open connections now."""
        return list(self._connections)

    @property
    def is_serving(self) -> bool:
        """Whether a client is connected."""
        return bool(self._connections)

    def close_idle(self, now: float) -> None:
        """Close connections without traffic for `connections.max.idle.ms`, and dismiss strangers
        that take too long.
        """
        self._memory.look_after(now)
        self._memory_of_strangers.look_after(now)
        for stranger, since in list(self._strangers.items()):
            if now - since <= _STRANGER_S:
                break
            self._dismiss(stranger, f"{_STRANGER_S:.0f} s are over")
        idle_ms = self.limits.connections_max_idle_ms
        if idle_ms <= 0:
            return
        for connection in list(self._connections):
            if not connection.awaits_us and (now - connection.last_active) * 1000 > idle_ms:
                connection.close(f"idle for more than connections.max.idle.ms={idle_ms}")

    def stop_accepting(self) -> None:
        self.is_accepting = False
        loop = asyncio.get_running_loop()
        for sock in self._sockets:
            loop.remove_reader(sock.fileno())
            sock.close()
        self._sockets.clear()

    def finish(self) -> None:
        """Close every connection as soon as its started requests are answered."""
        self._close_handshakes()
        for connection in list(self._connections):
            connection.finish()

    async def closed(self, timeout_s: float) -> None:
        """Wait until all connections are closed, or for `timeout_s`."""
        if self._connections:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._has_none.wait(), timeout_s)

    def close(self) -> None:
        self.stop_accepting()
        self._close_handshakes()
        self._thread_of_handshakes.shutdown(cancel_futures=True)
        for sock in self._waiting_to_leave:
            sock.close()
        for connection in list(self._connections):
            connection.close(None)

    def _close_handshakes(self) -> None:
        for stranger in list(self._strangers):
            if isinstance(stranger, Handshake):
                stranger.close(None)


def _connections_end() -> int:
    """The number of the first descriptor that is not for connections."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit - min(_RESERVE_MAX, limit // 8)


def _has_room() -> bool:
    try:
        free = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    os.close(free)
    return free < _connections_end()
