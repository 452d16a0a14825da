"""Handshakes: what one costs the broker, and how long a storm of them keeps its loop."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import ssl
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.harness import Comparison, Metric, Metrics, Options, Stopwatch, compare
from bench.load import GENERATOR, request_frame
from bench.security.sides import TlsBroker
from rig.brokers.drumlin_with_listeners import DrumlinWithListeners
from rig.servers.certificates import Certificates

_THREADS = 4
_STORM = 1000
_TURN_GOAL_MS = 10.0
_SETTLING_S = 1.0
_TIMEOUT_S = 120.0


def _handshakes(brokers: Sequence[Any], options: Options) -> list[Comparison]:
    metrics = (
        Metric("rate", "handshakes/s"),
        Metric("cpu", "broker CPU ms/handshake", higher_is_better=False, target=1.0),
        GENERATOR,
    )
    sides = {each.name: _round(each, options) for each in brokers}
    return compare("security", "connections with a request each", metrics, sides, options)


ROWS: dict[str, Callable[[Sequence[Any], Options], list[Comparison]]] = {"handshakes": _handshakes}


def _round(broker: TlsBroker, options: Options) -> Callable[[], Metrics]:
    frame = request_frame("api_versions", 0)

    def connect_until(deadline: float) -> int:
        count = 0
        while time.perf_counter() < deadline:
            with contextlib.closing(broker.dial()) as connection:
                connection.sendall(frame)
                if not connection.recv(1 << 16):
                    raise RuntimeError(f"{broker.name} closed a connection")
            count += 1
        return count

    def measure() -> Metrics:
        with ThreadPoolExecutor(_THREADS) as pool, Stopwatch(broker.pid) as watch:
            deadline = time.perf_counter() + options.seconds
            count = sum(pool.map(connect_until, [deadline] * _THREADS))
        return {
            "rate": count / watch.seconds,
            "cpu": 1e3 * watch.cpu_seconds / count,
            "generator": 100 * watch.own_cpu_seconds / watch.seconds,
        }

    return measure


# -- a storm -----------------------------------------------------------------------------------


class _Watched(DrumlinWithListeners):
    """One whose longer turns are written into a file."""

    def __init__(self, directory: Path, certificates: Certificates) -> None:
        super().__init__(directory, certificates)
        self.turns = directory / "turns"
        self.turns.touch()

    def command(self) -> list[str]:
        arguments = super().command()[3:]
        return [sys.executable, "-m", "bench.turns.watched", str(self.turns), *arguments]


def storm(options: Options) -> list[Comparison]:
    """All at once: the longest turn, in processor time."""
    certificates = Certificates(options.directory / "certificates-of-storm")
    context = ssl.create_default_context(cafile=certificates.path("ca.crt"))
    folder = options.directory / "watched"
    folder.mkdir()
    server = _Watched(folder, certificates)
    longest = []
    with contextlib.closing(server):
        server.start()
        port = int(server.addresses["tls"].rpartition(":")[2])
        for number in range(options.rounds):
            before = len(server.turns.read_bytes())
            took_s = _shake_hands(port, context)
            time.sleep(_SETTLING_S)  # the longer turns are written by a thread
            with server.turns.open("rb") as file:
                file.seek(before)
                turns = [json.loads(line) for line in file]
            worst = max(turns, key=lambda each: each["ms"], default={"ms": 0.0})
            print(
                f"security, storm, round {number + 1}: {took_s:.1f} s, {worst['ms']} ms",
                file=sys.stderr,
            )
            longest.append(float(worst["ms"]))
    metric = Metric("turn", "ms, the longest", higher_is_better=False, limit=_TURN_GOAL_MS)
    scenario = f"a storm of {_STORM:,} handshakes"
    return [Comparison("security", scenario, metric, "Drumlin", "-", longest, [0.0] * len(longest))]


def _shake_hands(port: int, context: ssl.SSLContext) -> float:
    """Connect all, then let all of them shake hands; how long that takes."""
    with contextlib.ExitStack() as stack, contextlib.closing(select.epoll()) as poll:
        waiting: dict[int, ssl.SSLSocket] = {}
        for _ in range(_STORM):
            plain = socket.create_connection(("127.0.0.1", port))
            plain.setblocking(False)
            connection = context.wrap_socket(
                plain, server_hostname="localhost", do_handshake_on_connect=False
            )
            waiting[stack.enter_context(connection).fileno()] = connection
        began_s = time.perf_counter()
        for descriptor in waiting:
            poll.register(descriptor, select.EPOLLIN | select.EPOLLOUT)
        while waiting:
            if time.perf_counter() > began_s + _TIMEOUT_S:
                raise RuntimeError(f"{len(waiting)} handshakes are not done")
            for descriptor, _ in poll.poll(1):
                try:
                    waiting[descriptor].do_handshake()
                except ssl.SSLWantReadError:
                    poll.modify(descriptor, select.EPOLLIN)
                except ssl.SSLWantWriteError:
                    poll.modify(descriptor, select.EPOLLOUT)
                else:
                    poll.unregister(descriptor)
                    del waiting[descriptor]
        return time.perf_counter() - began_s
