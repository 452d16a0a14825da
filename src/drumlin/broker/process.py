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
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from drumlin.broker.broker import Broker
from drumlin.broker.garbage import GarbageCollection
from drumlin.broker.loop_watch import LoopWatch
from drumlin.broker.startup import StartFailed
from drumlin.clock import SystemClock
from drumlin.config.broker import BrokerConfig
from drumlin.config.errors import ConfigError
from drumlin.ready_threads import ready_threads

_log = logging.getLogger("drumlin")
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
    _set_up_logging(log_level)
    _raise_descriptor_limit()
    _keep_freed_memory()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    try:
        config = BrokerConfig.load(properties)
        watch = LoopWatch()
        with asyncio.Runner(loop_factory=watch.new_loop) as runner:
            runner.run(_serve(config, watch))
    except (ConfigError, StartFailed) as error:
        print(f"drumlin server: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


async def _serve(config: BrokerConfig, watch: LoopWatch) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ready_threads(_OTHER_THREADS, "other"))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup ignores it for us
        loop.add_signal_handler(signal.SIGHUP, stop.set)
    loop.set_exception_handler(_log_exception)
    if config.without_effect:
        _log.warning("without effect here: %s", ", ".join(config.without_effect))
    garbage = GarbageCollection()

    def before_serving() -> None:
        garbage.begin()
        watch.begin()

    broker = await _start(config, stop, before_serving)
    looking = loop.create_task(garbage.keep_looking(lambda: broker.server.is_serving))
    broker.endpoints.metrics.add(watch.measures)
    addresses = ", ".join(f"{each.host or '*'}:{each.port}" for each in broker.listeners)
    print(  # noqa: T201
        f"drumlin is ready on {addresses} (data in {', '.join(config.log_dirs)}, "
        f"cluster id {broker.metadata.image.cluster_id})",
        flush=True,
    )
    for risk in risks(config):
        _log.warning("%s", risk)
    await stop.wait()
    watch.end()
    looking.cancel()
    _log.info("stopping")
    await broker.stop()
    _log.info("stopped cleanly")


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


async def _start(
    config: BrokerConfig, stop: asyncio.Event, before_serving: Callable[[], None]
) -> Broker:
    """Start a broker. If a signal comes before it serves, the process ends here."""
    starting = asyncio.create_task(Broker.start(config, SystemClock(), before_serving))
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


def _set_up_logging(level: str) -> None:
    logging.basicConfig(
        stream=sys.stderr,
        level=level,
        format="%(asctime)s %(levelname)-7s %(name)s: %(message)s",
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
