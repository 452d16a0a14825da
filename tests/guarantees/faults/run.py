"""One run: a broker with clients of all kinds, and one shortage after the other.

When one has ended, the broker has to serve clients of every kind again within a time; in the end,
after a stop or a kill, all that was acknowledged has to be there.
"""

from __future__ import annotations

import errno
import random
import shutil
import time
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil

from guarantees.faults.worker import Worker
from guarantees.faults.workers import start_all, wait_for_all
from rig.brokers.drumlin_server import DrumlinServer
from rig.fault_injection.injector import CHANGES, DESCRIPTORS, DISK, ROOM, Call, Injector, Rule
from rig.ports import free_ports

_DATA: Final = "/data/"
#: What may be short, or fail, and come back.
FAULTS: Final[dict[str, Rule]] = {
    "no descriptor": Rule(DESCRIPTORS, errno.EMFILE),
    "no descriptor in the system": Rule(DESCRIPTORS, errno.ENFILE),
    "no descriptor for files": Rule({Call.OPEN, Call.CREATE, Call.LIST}, errno.EMFILE, part=_DATA),
    "no watch": Rule({Call.WATCH}, errno.ENOSPC),
    "no memory to map": Rule({Call.MAP}, errno.ENOMEM),
    "no thread": Rule({Call.THREAD}, errno.EAGAIN),
    "no room": Rule(ROOM, errno.ENOSPC, part=_DATA),
    "over quota": Rule(ROOM, errno.EDQUOT, part=_DATA),
    "a disk that fails": Rule(DISK, errno.EIO, part=_DATA),
    "a disk that writes nothing": Rule(CHANGES, errno.EIO, part=_DATA),
}
_SETTINGS: Final = {
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
    "log.cleaner.backoff.ms": "300",
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "500",
    "log.flush.offset.checkpoint.interval.ms": "1000",
    "log.segment.delete.delay.ms": "500",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
KINDS: Final = ("once", "for a time", "at a start")
_STARTS: Final = 4
#: Without memory or threads not even the interpreter starts.
_NOT_AT_A_START: Final = ("no memory to map", "no thread")
#: Single failures of a kind, in place of one that lasts.
_SINGLE: Final = 15
_WARM_UP_S: Final = 90.0
_DESCRIPTORS_MORE_MAX: Final = 400


@dataclass(frozen=True)
class Plan:
    """What a run does."""

    seed: str
    #: How long a shortage lasts.
    lasts_s: float = 10.0
    #: Within which time the broker is whole again.
    heals_s: float = 10.0
    faults: tuple[str, ...] = tuple(FAULTS)
    kinds: tuple[str, ...] = KINDS


@dataclass
class Result:
    """What came of it."""

    #: Of each shortage: the calls that failed, and after how many seconds all was well again.
    healed: dict[str, tuple[int, float]] = field(default_factory=dict)
    steps: dict[str, int] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)


def run(plan: Plan, directory: Path) -> Result:
    """Do it. The directory is removed if all is right, else it keeps output and data.

    Raises:
        Unavailable: faults cannot be injected here.
    """
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    http_port = free_ports(1)[0]
    listener = {"drumlin.metrics.listener": f"127.0.0.1:{http_port}"}
    server = DrumlinServer(directory, _SETTINGS | listener)
    injector = Injector(directory / "faults")
    server.environment = injector.environment()
    result = Result()
    try:
        server.start()
        _torture(plan, server, http_port, injector, result)
    except Exception as failure:
        result.complaints.append("".join(traceback.format_exception(failure)))
    finally:
        injector.heal()
        server.close()
    if not result.complaints:
        shutil.rmtree(directory)
    return result


def _torture(
    plan: Plan, server: DrumlinServer, http_port: int, injector: Injector, result: Result
) -> None:
    chance = random.Random(plan.seed)
    workers = start_all(server.port, http_port)
    try:
        late = wait_for_all(workers, time.monotonic(), _WARM_UP_S)
        assert not late, f"before any fault: {late}"
        descriptors = psutil.Process(server.pid).num_fds()
        for name in plan.faults:
            for kind in plan.kinds:
                if kind == "at a start" and name in _NOT_AT_A_START:
                    continue
                described = f"{name}, {kind}"
                hits, took_s = 0, 0.0
                for _ in range(_STARTS if kind == "at a start" else 1):
                    hits += _have(injector, FAULTS[name], kind, plan, chance, server)
                    ended = time.monotonic()
                    # A start has everything before it, and nothing is warm.
                    limit_s = plan.heals_s * (2 if kind == "at a start" else 1)
                    late = wait_for_all(workers, ended, limit_s)
                    took_s = max(took_s, time.monotonic() - ended)
                    server.fail_if_ended()
                    result.complaints += [f"after {described}: {each}" for each in late]
                    if late:
                        return
                result.healed[described] = hits, took_s
        more = psutil.Process(server.pid).num_fds() - descriptors
        if more > _DESCRIPTORS_MORE_MAX:
            result.complaints.append(f"{more} descriptors more are open")
    finally:
        injector.heal()
        result.complaints += _join(workers)
        result.steps = {each.name: each.steps for each in workers}
    if chance.random() < 0.5:
        server.kill()
    else:
        server.stop()
    server.start()
    result.complaints += _verified(server, workers)
    server.stop()


def _have(
    injector: Injector,
    rule: Rule,
    kind: str,
    plan: Plan,
    chance: random.Random,
    server: DrumlinServer,
) -> int:
    """Have calls fail; how many have."""
    if kind == "at a start":
        return _start(injector, rule, chance, server)
    if kind == "for a time":
        with injector.injected(rule):
            time.sleep(plan.lasts_s)
        return injector.hits
    hits = 0
    for _ in range(_SINGLE):
        with injector.injected(rule._replace(after=chance.randrange(30), times=1)):
            deadline = time.monotonic() + max(plan.lasts_s / _SINGLE, 0.7)
            while not injector.hits and time.monotonic() < deadline:
                time.sleep(0.005)
        hits += injector.hits
    return hits


def _start(injector: Injector, rule: Rule, chance: random.Random, server: DrumlinServer) -> int:
    """Start the broker, and have one call of its start fail; a start may be refused for it."""
    if chance.random() < 0.5:
        server.kill()
    else:
        server.stop()
    with injector.injected(rule._replace(after=int(10 ** chance.uniform(0, 3)), times=1)):
        try:
            server.start()
        except AssertionError:
            if server.process is not None and server.process.poll() is None:
                raise
            server.process = None
    if server.process is None:
        server.start()
    return injector.hits


def _join(workers: Iterable[Worker]) -> Iterator[str]:
    for each in workers:
        each.stop()
    for each in workers:
        each.join(60)
        if each.is_alive():
            yield f"{each.name} waits for ever"
        yield from each.failures


def _verified(server: DrumlinServer, workers: Iterable[Worker]) -> list[Any]:
    with server.connect() as client:
        return [complaint for each in workers for complaint in each.verify(client)]
