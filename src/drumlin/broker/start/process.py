"""The broker as a process: starts it, reports that it is ready, stops it on a signal.

An error at start is one line on standard error and an exit code, never a traceback, which would not
help the operator.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from drumlin.broker.log_lines.forms import Form, say
from drumlin.broker.loop.garbage import GarbageCollection
from drumlin.broker.loop.loop_watch import LoopWatch
from drumlin.broker.start.announcements import announce_ready, announce_stopping
from drumlin.broker.start.broker import Broker
from drumlin.broker.start.machine_locks import Locks
from drumlin.broker.start.moves_between_brokers import has_folders, move_partitions
from drumlin.broker.start.process_setup import (
    SIGNALS,
    has_tls,
    prepare_process,
    stop_on,
    unless_stopped,
)
from drumlin.broker.start.shared_machine import SharedMachine
from drumlin.broker.start.startup import StartFailed
from drumlin.clock import SystemClock
from drumlin.config.broker import BrokerConfig
from drumlin.config.config_error import ConfigError
from drumlin.ready_threads import ready_threads

_log = logging.getLogger("drumlin")
#: Threads for rare work: regular expressions, a change of the cleaner's configuration.
_OTHER_THREADS: Final = 4


def run(properties: Mapping[str, str], log_level: str = "INFO", told: str = "") -> int:
    """Run a broker until SIGTERM, SIGINT or SIGHUP; returns the exit code of the process.

    With TLS, SIGHUP makes it read its certificates again. `told`: a further message to print
    once the broker is ready.
    """
    form = Form.of(properties)
    prepare_process(log_level, form)
    try:
        config = BrokerConfig.load(properties)
        if not config.zookeeper_connect and has_folders(config):
            with Locks({config.node_id: config.log_dirs}):
                move_partitions(config, 1)
        run_broker(config, lambda broker: _tell_ready(config, broker, told))
    except (ConfigError, StartFailed) as error:
        say(form, str(error))
        return 1
    return 0


def run_broker(
    config: BrokerConfig,
    when_ready: Callable[[Broker], None],
    machine: SharedMachine | None = None,
    signals: Sequence[signal.Signals] = SIGNALS,
) -> None:
    """Run a broker until it gets a signal.

    Raises:
        StartFailed: the message is one line with the reason.
    """
    watch = LoopWatch()
    with asyncio.Runner(loop_factory=watch.new_loop) as runner:
        runner.run(_serve(config, watch, when_ready, machine, signals))


async def _serve(
    config: BrokerConfig,
    watch: LoopWatch,
    when_ready: Callable[[Broker], None],
    machine: SharedMachine | None,
    signals: Sequence[signal.Signals],
) -> None:
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ready_threads(_OTHER_THREADS, "other"))
    broker: Broker | None = None

    def renew() -> None:
        if broker is not None:
            broker.begin_to_renew()

    stop = stop_on(signals, renew if has_tls(config) else None)
    loop.set_exception_handler(_log_exception)
    if config.without_effect:
        _log.warning("without effect here: %s", ", ".join(config.without_effect))
    garbage = GarbageCollection()

    def before_serving() -> None:
        garbage.begin()
        watch.begin()

    starting = Broker.start(config, SystemClock(), before_serving, machine)
    broker = await unless_stopped(starting, stop)
    looking = loop.create_task(garbage.keep_looking(lambda: broker.server.is_serving))
    broker.endpoints.metrics.add(watch.measures)
    when_ready(broker)
    await stop.wait()
    watch.end()
    looking.cancel()
    announce_stopping()
    await broker.stop()
    _log.info("stopped cleanly")


def _tell_ready(config: BrokerConfig, broker: Broker, told: str) -> None:
    addresses = ", ".join(each.address for each in broker.listeners)
    ready = (
        f"drumlin is ready on {addresses} (data in {', '.join(config.log_dirs)}, "
        f"cluster id {broker.metadata.image.cluster_id})"
    )
    announce_ready(config, ready, told)


def _log_exception(_: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    error = context.get("exception")
    _log.error(
        "%s", context.get("message"), exc_info=error if isinstance(error, Exception) else None
    )
