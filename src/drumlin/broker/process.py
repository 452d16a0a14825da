"""The broker as a process: starts it, says that it is ready, stops it on a signal.

An error at start is one line on standard error and an exit code, never a traceback: only a line is
something that the operator can act on.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from drumlin.broker.broker import Broker
from drumlin.broker.garbage import GarbageCollection
from drumlin.broker.loop_watch import LoopWatch
from drumlin.broker.machine.locks import Locks
from drumlin.broker.machine.moving import has_folders, move_partitions
from drumlin.broker.startup import StartFailed
from drumlin.clock import SystemClock
from drumlin.config.broker import BrokerConfig
from drumlin.config.errors import ConfigError
from drumlin.ready_threads import ready_threads

if TYPE_CHECKING:
    from drumlin.broker.company import Company

T = TypeVar("T")

_log = logging.getLogger("drumlin")
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
#: How long the event loop waits for a thread (a cleaner's, above all) that holds the interpreter.
#: Python's 5 ms would be seen in clients' latency.
_SWITCH_INTERVAL_S: Final = 0.0002
#: For what is seldom done in threads: regular expressions, a cleaner that is reconfigured.
_OTHER_THREADS: Final = 4
#: Numbers that the GNU C library's `mallopt` goes by.
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
#: Free memory at the heap's end that is kept. By itself the library gives back what a large request
#: took, each time.
_KEPT_BYTES: Final = 32 << 20
#: Larger ones are mappings of their own (`wire/frames.py`), of which pages are given as they fill.
_MAPPED_FROM_BYTES: Final = 4 << 20
#: Where many systems clear up when they start.
_FLEETING: Final = "/tmp"  # noqa: S108


def run(properties: Mapping[str, str], log_level: str = "INFO") -> int:
    """Run a broker until SIGTERM, SIGINT or SIGHUP; the exit code of the process."""
    prepare_process(log_level)
    try:
        config = BrokerConfig.load(properties)
        if not config.zookeeper_connect and has_folders(config):
            with Locks({config.node_id: config.log_dirs}):
                move_partitions(config, 1)
        run_broker(config, lambda broker: _tell_ready(config, broker))
    except (ConfigError, StartFailed) as error:
        print(f"drumlin server: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


def prepare_process(log_level: str, name: str = "") -> None:
    """Set up what a process has once. What it logs begins with its name."""
    _set_up_logging(log_level, name)
    _raise_descriptor_limit()
    _keep_freed_memory()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)


def run_broker(
    config: BrokerConfig,
    when_ready: Callable[[Broker], None],
    company: Company | None = None,
    signals: Sequence[signal.Signals] = _SIGNALS,
) -> None:
    """Run a broker until a signal comes.

    Raises:
        StartFailed: with one line that says why.
    """
    watch = LoopWatch()
    with asyncio.Runner(loop_factory=watch.new_loop) as runner:
        runner.run(_serve(config, watch, when_ready, company, signals))


async def _serve(
    config: BrokerConfig,
    watch: LoopWatch,
    when_ready: Callable[[Broker], None],
    company: Company | None,
    signals: Sequence[signal.Signals],
) -> None:
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ready_threads(_OTHER_THREADS, "other"))
    stop = stop_on(signals)
    loop.set_exception_handler(_log_exception)
    if config.without_effect:
        _log.warning("without effect here: %s", ", ".join(config.without_effect))
    garbage = GarbageCollection()

    def before_serving() -> None:
        garbage.begin()
        watch.begin()

    starting = Broker.start(config, SystemClock(), before_serving, company)
    broker = await unless_stopped(starting, stop)
    looking = loop.create_task(garbage.keep_looking(lambda: broker.server.is_serving))
    broker.endpoints.metrics.add(watch.measures)
    when_ready(broker)
    await stop.wait()
    watch.end()
    looking.cancel()
    _log.info("stopping")
    await broker.stop()
    _log.info("stopped cleanly")


def _tell_ready(config: BrokerConfig, broker: Broker) -> None:
    addresses = ", ".join(f"{each.host or '*'}:{each.port}" for each in broker.listeners)
    print(  # noqa: T201
        f"drumlin is ready on {addresses} (data in {', '.join(config.log_dirs)}, "
        f"cluster id {broker.metadata.image.cluster_id})",
        flush=True,
    )
    for risk in risks(config):
        _log.warning("%s", risk)


def stop_on(signals: Iterable[signal.Signals] = _SIGNALS) -> asyncio.Event:
    """What is set when one of the signals comes."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in signals:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            loop.add_signal_handler(number, stop.set)  # nohup ignores SIGHUP for us
    return stop


def risks(config: BrokerConfig) -> Iterator[str]:
    """Risks that are usual on a server behind a firewall, and may surprise elsewhere."""
    if any(each.host in ("", "::", "0.0.0.0") for each in config.listeners):  # noqa: S104
        yield (
            "any client that reaches this machine can read, write and delete everything: it "
            "listens on every interface, and asks no client for a user; --listen 127.0.0.1:PORT is "
            "for this machine only"
        )
    fleeting = [path for path in config.log_dirs if Path(path).resolve().is_relative_to(_FLEETING)]
    if fleeting:
        yield (
            "the data may be gone after the next reboot: they are in "
            f"{', '.join(fleeting)}; --data DIR keeps them elsewhere"
        )


async def unless_stopped(start: Coroutine[Any, Any, T], stop: asyncio.Event) -> T:
    """What comes of a start. If a signal comes first, the process ends here."""
    starting = asyncio.create_task(start)
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        # Recovery may take long and cannot be interrupted. Nothing has been acknowledged that
        # a clean stop would have to keep; the next start begins the recovery again.
        _log.info("stopped before it was ready")
        logging.shutdown()
        os._exit(0)
    stopping.cancel()
    return starting.result()


def _set_up_logging(level: str, name: str) -> None:
    said = f"[{name}] " if name else ""
    logging.basicConfig(
        stream=sys.stderr,
        level=level,
        format=f"%(asctime)s %(levelname)-7s {said}%(name)s: %(message)s",
    )


def _raise_descriptor_limit() -> None:
    """Take all the file descriptors that we may have: segments and connections need them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _keep_freed_memory() -> None:
    """Receive into memory that was used before: new pages cost as much as writing them to a log."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # as in other C libraries
        mallopt(_MMAP_THRESHOLD, _MAPPED_FROM_BYTES)
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)


def _log_exception(_: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    error = context.get("exception")
    _log.error(
        "%s", context.get("message"), exc_info=error if isinstance(error, Exception) else None
    )
