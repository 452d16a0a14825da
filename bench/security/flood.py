"""A flood: one tenant asks for all it can get, under quotas; how long the others wait meanwhile.

The others are a user who produces and fetches at a fixed pace; what counts is how late an answer
comes after its request was due. Each round has a calm half and one with the flood, in turns. In
turns with the broker, the user asks a process that only echoes: what that one takes is the
machine's, whose two processors the flood has as well.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from bench.brokers import Broker, require_no_error
from bench.harness import Comparison, Metric, Metrics, Options, Stopwatch, compare
from bench.load import batch_of, request_frame
from bench.security.sides import TlsBroker, both_with_tls
from rig.data.secured_listeners import PASSWORD
from rig.waiting import wait_until

#: What `flooder` knows.
_FORMS = (
    *("produce_small", "produce_large", "fetch", "metadata", "joins"),
    *("connections", "handshakes", "logins", "failed_logins"),
)
_ADDRESS = "127.0.0.2"
_GOAL = 2.0
_PACE_S = 0.005
_SETTLING_S = 4.0  # the window of a quota is over by then
_WINDOW = {"quota.window.num": "3", "quota.window.size.seconds": "1"}
_BYTES_A_SECOND = 2_000_000.0
#: What the one tenant may do.
_QUOTAS: Sequence[tuple[str, str, dict[str, float]]] = (
    (
        "user",
        "bob",
        {
            "producer_byte_rate": _BYTES_A_SECOND,
            "consumer_byte_rate": _BYTES_A_SECOND,
            "request_percentage": 5.0,
        },
    ),
    ("ip", _ADDRESS, {"connection_creation_rate": 20.0}),
)
_TENANTS = {"alice": PASSWORD, "bob": "bob"}
_TOPIC, _GROUP, _LITERAL, _ALL, _ALLOW = 2, 3, 3, 2, 3
_TOPICS = 100  # that a Metadata request tells of
_FILLED_BYTES = 8 << 20
_numbers = itertools.count()
_ECHO = """
import socket
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
connection, _ = server.accept()
while data := connection.recv(1):
    connection.sendall(data)
"""


def _flood(form: str, options: Options) -> list[Comparison]:
    metrics = (
        Metric("ratio", "p99 of calm", higher_is_better=False, limit=_GOAL),
        Metric("calm", "ms p99, calm", higher_is_better=False),
        Metric("flooded", "ms p99, flooded", higher_is_better=False),
        Metric("calm_work", "ms p99 of work, calm", higher_is_better=False),
        Metric("flooded_work", "ms p99 of work, flooded", higher_is_better=False),
        Metric("echoed", "ms p99 of an echo, flooded", higher_is_better=False),
        Metric("cpu", "% broker CPU, flooded", higher_is_better=False),
        Metric("answers", "answers/s to the flood"),
    )
    folder = options.directory / f"flood-{form}"
    folder.mkdir()
    own = dataclasses.replace(options, directory=folder)
    with both_with_tls(own, _WINDOW) as brokers, contextlib.ExitStack() as stack:
        sides = {each.name: stack.enter_context(_round(form, each, own)) for each in brokers}
        return compare("security", f"a flood of {form.replace('_', ' ')}", metrics, sides, own)


@contextlib.contextmanager
def _round(form: str, broker: TlsBroker, options: Options) -> Iterator[Callable[[], Metrics]]:
    """Calm, and under a flood."""
    _grant(broker)
    _limit(broker)
    filled, flooded, own = (broker.create_topic() for _ in range(3))
    for _ in range(_TOPICS):
        broker.create_topic()
    _fill(broker, filled)
    with contextlib.closing(_Tenant(broker, own)) as tenant:

        def calm() -> _Waits:
            return tenant.p99_ms(options.seconds)

        def in_flood() -> Metrics:
            ca_file = str(options.directory / "certificates" / "ca.crt")
            arguments = [
                _ADDRESS,
                form,
                str(broker.login_port),
                str(broker.tls_port),
                _TENANTS["bob"],
            ]
            with _flooding([*arguments, flooded, filled, ca_file]) as flood:
                time.sleep(_SETTLING_S)
                with Stopwatch(broker.pid) as watch:
                    found = tenant.p99_ms(options.seconds)
                answers, _ = flood.communicate()
            return {
                "flooded": found.late_ms,
                "flooded_work": found.worked_ms,
                "echoed": found.echoed_ms,
                "cpu": 100 * watch.cpu_seconds / watch.seconds,
                "answers": int(answers) / (watch.seconds + _SETTLING_S),
            }

        def measure() -> Metrics:
            if next(_numbers) % 2:
                flooded = in_flood()
                time.sleep(_SETTLING_S)
                quiet = calm()
            else:
                quiet = calm()
                flooded = in_flood()
            time.sleep(1)
            return {
                "ratio": flooded["flooded"] / quiet.late_ms,
                "calm": quiet.late_ms,
                "calm_work": quiet.worked_ms,
                **flooded,
            }

        yield measure


@contextlib.contextmanager
def _flooding(arguments: list[str]) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "bench.security.flooder", *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    ) as flood:
        assert flood.stdout is not None
        try:
            if flood.stdout.readline() != "flooding\n":
                raise RuntimeError("the flood does not begin")
            yield flood
        finally:
            flood.kill()


class _Tenant:
    """Another user, who produces and fetches in turns at a fixed pace."""

    def __init__(self, broker: TlsBroker, topic: str) -> None:
        self._client = broker.login("alice", _TENANTS["alice"])
        self._clock = _clock_of(broker.pid)
        data = [{"name": topic, "partition_data": [{"index": 0, "records": batch_of(1000)}]}]
        part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
        part |= {"current_leader_epoch": -1, "last_fetched_epoch": -1, "log_start_offset": -1}
        fetch = {"replica_id": -1, "max_wait": 500, "min_bytes": 1, "max_bytes": 1000}
        topics = [{"topic": topic, "partitions": [part]}]
        self._frames = (
            request_frame("produce", 9, acks=1, timeout=30_000, topic_data=data),
            request_frame("fetch", 12, **fetch, session_epoch=-1, topics=topics),
        )

        self._echoing = subprocess.Popen(
            [sys.executable, "-c", _ECHO], stdout=subprocess.PIPE, text=True
        )
        assert self._echoing.stdout is not None
        where = ("127.0.0.1", int(self._echoing.stdout.readline()))
        self._echo = socket.create_connection(where)

        def is_led() -> bool:
            self._client.send_bytes(self._frames[0])
            answer = self._client.receive("produce", 9)
            return bool(answer.responses[0].partition_responses[0].error_code == 0)

        wait_until(is_led, "a leader")

    def close(self) -> None:
        self._client.close()
        self._echo.close()
        self._echoing.communicate()

    def p99_ms(self, seconds: float) -> _Waits:
        """How late answers come after their requests were due, and how much the broker does in
        between: that is how long they would take on a machine of its own.
        """
        late_ms: list[float] = []
        worked_ms: list[float] = []
        echoed_ms: list[float] = []
        began_s = due_s = time.perf_counter()
        for frame in itertools.cycle((*self._frames, None)):
            due_s += _PACE_S
            if due_s > began_s + seconds:
                return _Waits(_p99(late_ms), _p99(worked_ms), _p99(echoed_ms))
            time.sleep(max(0.0, due_s - time.perf_counter()))
            if frame is None:
                self._echo.sendall(b"?")
                self._echo.recv(1)
                echoed_ms.append(1e3 * (time.perf_counter() - due_s))
                continue
            before_s = time.clock_gettime(self._clock)
            self._client.send_bytes(frame)
            self._client.receive_frame()
            worked_ms.append(1e3 * (time.clock_gettime(self._clock) - before_s))
            late_ms.append(1e3 * (time.perf_counter() - due_s))
        raise AssertionError


class _Waits(NamedTuple):
    late_ms: float
    worked_ms: float
    echoed_ms: float


def _p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100)[98]


def _clock_of(pid: int) -> int:
    """The clock of a process's time on the processors (`clock_getcpuclockid`)."""
    return ~pid << 3 | 2


def _grant(broker: Broker) -> None:
    """Both tenants may use all topics and groups."""
    creations = [
        {
            "resource_type": kind,
            "resource_name": "*",
            "resource_pattern_type": _LITERAL,
            "principal": f"User:{tenant}",
            "host": "*",
            "operation": _ALL,
            "permission_type": _ALLOW,
        }
        for kind in (_TOPIC, _GROUP)
        for tenant in _TENANTS
    ]
    for each in broker.ask("create_acls", 3, creations=creations).results:
        require_no_error(each)


def _limit(broker: Broker) -> None:
    entries = [
        {
            "entity": [{"entity_type": kind, "entity_name": name}],
            "ops": [{"key": key, "value": each, "remove": False} for key, each in limits.items()],
        }
        for kind, name, limits in _QUOTAS
    ]
    for each in broker.ask("alter_client_quotas", 1, entries=entries, validate_only=False).entries:
        require_no_error(each)


def _fill(broker: Broker, topic: str) -> None:
    batch = batch_of(1 << 19)
    data = [{"name": topic, "partition_data": [{"index": 0, "records": batch}]}]

    def is_taken() -> bool:
        answer = broker.ask("produce", 9, acks=1, timeout=30_000, topic_data=data)
        return bool(answer.responses[0].partition_responses[0].error_code == 0)

    for _ in range(_FILLED_BYTES // len(batch)):
        wait_until(is_taken, "a leader")


ROWS: dict[str, Callable[[Options], list[Comparison]]] = {
    f"flood_{each}": functools.partial(_flood, each) for each in _FORMS
}
