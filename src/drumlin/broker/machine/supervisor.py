"""The server of several brokers: starts their processes, owns their metadata, stops them.

It serves no clients. The settings of the command line apply to all brokers. An error at start is
one line on standard error, and ends all brokers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from drumlin.broker.configs.config_changes import take_over_stored_configs
from drumlin.broker.log_lines.forms import Form, say
from drumlin.broker.login.machine_secret import new_secret
from drumlin.broker.machine.operator import Operator
from drumlin.broker.machine.usages import relay
from drumlin.broker.machine.workers import NotStarted, Worker
from drumlin.broker.start.announcements import announce_ready, announce_stopping
from drumlin.broker.start.machine_locks import Locks
from drumlin.broker.start.moves_between_brokers import is_empty, move_partitions, note_placed
from drumlin.broker.start.process_setup import has_tls, prepare_process, stop_on, unless_stopped
from drumlin.broker.start.startup import StartFailed
from drumlin.config.broker import BrokerConfig
from drumlin.config.config_error import ConfigError
from drumlin.config.machine import check_machine, properties_of
from drumlin.metadata.embedded.sqlite import SqliteMetadata
from drumlin.metadata.image import ClusterImage, ResourceType
from drumlin.metadata.opening import configs_in, open_embedded
from drumlin.metadata.shared.authority import Authority
from drumlin.metadata.store.changes import Change, ConfigsChanged
from drumlin.metadata.store.mutations import ImmediateListeners
from drumlin.metadata.store.store import UnusableMetadata
from drumlin.wire.error_codes import KafkaError

_log = logging.getLogger(__name__)
_EXIT_FAILED: Final = 1


def run(
    properties: Mapping[str, str], brokers: int, log_level: str = "INFO", told: str = ""
) -> int:
    """Run this many brokers until SIGTERM, SIGINT or SIGHUP; returns the exit code of the process.

    `told`: a further message to print once all are ready.
    """
    form = Form.of(properties)
    prepare_process(log_level, form, "server")
    try:
        config = BrokerConfig.load(properties, brokers)
        check_machine(config, brokers)
        each = [properties_of(config, properties, index) for index in range(brokers)]
        configs = [BrokerConfig.load(own, brokers) for own in each]
        return asyncio.run(_Server(config, configs, each, log_level, told).run())
    except (ConfigError, StartFailed, NotStarted, KafkaError) as error:
        if str(error):  # if empty, the broker has logged the error
            say(form, str(error))
        return _EXIT_FAILED


class _Server:
    """One run of the server."""

    def __init__(
        self,
        config: BrokerConfig,
        configs: list[BrokerConfig],
        properties: list[dict[str, str]],
        log_level: str,
        told: str,
    ) -> None:
        self._told = told
        self._config = config
        self._configs = configs
        self._properties = properties
        self._log_level = log_level
        self._workers: dict[int, Worker] = {}
        self._image: ClusterImage
        self._is_empty = False

    async def run(self) -> int:
        stop = stop_on(on_hangup=self._renew if has_tls(self._config) else None)
        log_dirs = {each.node_id: _absolute(each.log_dirs) for each in self._configs}
        with Locks(log_dirs) as locks:
            store = await unless_stopped(asyncio.to_thread(self._open), stop)
            if self._is_empty:
                await store.commit([note_placed([*log_dirs])])
            self._image = store.image
            configs_of = configs_in(store.image, self._config)
            authority = Authority(store, log_dirs, configs_of, self._drop)
            store.on_change(self._on_change)
            operator = Operator(self._config, self._workers, authority)
            try:
                await operator.start()
                return await self._run(authority, locks, stop)
            finally:
                await operator.stop()
                await store.close()

    def _open(self) -> SqliteMetadata:
        move_partitions(self._config, len(self._configs))
        self._is_empty = is_empty(self._config)
        try:
            store = open_embedded(self._config, ImmediateListeners(), are_locked=True)
        except UnusableMetadata as error:
            raise StartFailed(str(error)) from error
        self._is_empty = self._is_empty and not store.image.topics
        take_over_stored_configs(self._config, store.image)
        return store

    async def _run(self, authority: Authority, locks: Locks, stop: asyncio.Event) -> int:
        """Start all brokers, serve until the end, stop them."""
        brokers = len(self._configs)
        session_s = self._config.zookeeper_session_timeout_ms / 1000
        secret = new_secret()
        for config, properties in zip(self._configs, self._properties, strict=True):
            node_id = config.node_id
            self._workers[node_id] = Worker(
                node_id,
                properties,
                brokers,
                self._log_level,
                locks.of(node_id),
                secret,
                authority,
                session_s,
                partial(relay, self._workers),
            )
        workers = list(self._workers.values())
        runs = [asyncio.create_task(each.run()) for each in workers]
        stopping = asyncio.create_task(stop.wait())
        ready = asyncio.create_task(_addresses(workers))
        ends: set[asyncio.Future[Any]] = {stopping, *runs}
        try:
            await asyncio.wait({ready, *ends}, return_when=asyncio.FIRST_COMPLETED)
            is_ready = ready.done()
            if is_ready:
                self._tell_ready(authority, ready.result())
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            announce_stopping()
        finally:
            stopping.cancel()
            ready.cancel()
            authority.stop()
            for each in workers:
                each.stop()
            *ended, _ = await asyncio.gather(*runs, ready, return_exceptions=True)
        for outcome in ended:
            if isinstance(outcome, BaseException):
                raise outcome
        if is_ready and any(ended):
            _log.error("a broker has not stopped cleanly")
            return _EXIT_FAILED
        _log.info("stopped cleanly")
        return 0

    def _tell_ready(self, authority: Authority, addresses: list[list[str]]) -> None:
        said = ", ".join(address for each in addresses for address in each)
        ready = (
            f"drumlin is ready on {said} ({len(addresses)} brokers, data in "
            f"{', '.join(self._config.log_dirs)}, cluster id {authority.image.cluster_id})"
        )
        announce_ready(self._config, ready, self._told)

    def _renew(self) -> None:
        """Have all brokers read their certificates again."""
        for each in self._workers.values():
            each.renew()

    def _drop(self, node_id: int) -> None:
        self._workers[node_id].kill()

    def _on_change(self, change: Change) -> None:
        if isinstance(change, ConfigsChanged) and change.resource.type is ResourceType.BROKER:
            take_over_stored_configs(self._config, self._image)


async def _addresses(workers: Iterable[Worker]) -> list[list[str]]:
    """The addresses of all brokers.

    A coroutine, because asyncio logs a warning if `asyncio.gather` is called and never awaited.
    """
    return [await each.addresses for each in workers]


def _absolute(paths: Iterable[str]) -> list[str]:
    return [str(Path(path).absolute()) for path in paths]
