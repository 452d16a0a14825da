"""What TLS itself costs: Drumlin beside a bare loop that does nothing but decrypt and encrypt.

The loop is Python's `ssl` over a blocking socket, on memory that is warm, without requests, a log
or other peers. No broker in Python that encrypts in its process can take less.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence

from bench import fetch, produce
from bench.dial import through_tls
from bench.floor import running
from bench.harness import Comparison, Metric, Metrics, Options, Stopwatch, compare
from bench.load import GENERATOR, Load
from bench.security.sides import TlsBroker

_SIZE = 1 << 20
_SMALL = 100
_WRITE_BYTES = 64 << 10
_IN_FLIGHT = 5
_BYTES_MAX = 2 << 30
_BARE = "bare TLS"


def _metrics() -> Sequence[Metric]:
    cpu = Metric("cpu", "CPU s/GB", higher_is_better=False)
    return (Metric("rate", "MB/s"), cpu, GENERATOR)


def _serve(
    listener: socket.socket, context: ssl.SSLContext, request_bytes: int, answer_bytes: int
) -> None:
    memory, answer = memoryview(bytearray(request_bytes)), memoryview(bytes(answer_bytes))
    while True:
        peer, _ = listener.accept()
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with context.wrap_socket(peer, server_side=True) as channel:
            while _received(channel, memory):
                for at in range(0, answer_bytes, _WRITE_BYTES):
                    channel.sendall(answer[at : at + _WRITE_BYTES])


def _received(channel: ssl.SSLSocket, memory: memoryview) -> bool:
    at = 0
    while at < len(memory):
        try:
            count = channel.recv_into(memory[at:])
        except OSError:
            return False
        if not count:
            return False
        at += count
    return True


def _bare_round(broker: TlsBroker, port: int, pid: int, request: int, answer: int) -> _Round:
    def measure(options: Options) -> Metrics:
        dial = through_tls(port, broker.context)
        load = Load(dial, [bytes(request)], _IN_FLIGHT, answer)
        with contextlib.closing(load), Stopwatch(pid) as watch:
            count = load.run(options.seconds, _BYTES_MAX // _SIZE)
        moved = count * _SIZE
        return {
            "rate": moved / 1e6 / watch.seconds,
            "cpu": watch.cpu_seconds / (moved / 1e9),
            "generator": 100 * watch.own_cpu_seconds / watch.seconds,
        }

    return measure


_Round = Callable[[Options], Metrics]


def _fetch(brokers: Sequence[TlsBroker], options: Options) -> list[Comparison]:
    ours = brokers[0]
    scenario = fetch.Scenario("1 MiB", _SIZE, _IN_FLIGHT, 1.0)
    with _bare(ours, _SMALL, _SIZE) as bare, fetch.sides(brokers, scenario, options) as found:
        sides = {ours.name: found[ours.name], _BARE: lambda: bare(options)}
        return compare("security", "fetch 1 MiB beside bare TLS", _metrics(), sides, options)


def _produce(brokers: Sequence[TlsBroker], options: Options) -> list[Comparison]:
    ours = brokers[0]
    scenario = produce.Scenario("1 MiB", _SIZE, 1000, _IN_FLIGHT, 1.0)
    measured = produce.round_of(ours, scenario, options)

    def in_megabytes() -> Metrics:
        found = measured()
        return {**found, "rate": found["rate"] * _SIZE / 1e6}

    with _bare(ours, _SIZE, _SMALL) as bare:
        sides = {ours.name: in_megabytes, _BARE: lambda: bare(options)}
        return compare("security", "produce 1 MiB beside bare TLS", _metrics(), sides, options)


@contextlib.contextmanager
def _bare(broker: TlsBroker, request_bytes: int, answer_bytes: int) -> Iterator[_Round]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*broker.certificate)
    with running(_serve, context, request_bytes, answer_bytes) as (port, pid):
        yield _bare_round(broker, port, pid, request_bytes, answer_bytes)


ROWS: dict[str, Callable[[Sequence[TlsBroker], Options], list[Comparison]]] = {
    "floor_fetch_1m": _fetch,
    "floor_produce_1m": _produce,
}
