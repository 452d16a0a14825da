"""New certificates for a running broker: when its configuration or its files change, or when an
operator asks for it.

If the new one is not valid, the present one stays: a change of the configuration is refused before
it is stored, and a bad file is logged. New connections get the new certificate; open ones keep the
one with which they began.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from drumlin.broker.login.between_brokers import as_client
from drumlin.broker.login.certificates.replacement import (
    Shown,
    Sides,
    check_certificate,
    check_trust,
    shown_in,
)
from drumlin.broker.login.certificates.server_tls import (
    Mark,
    ServerTls,
    context_of,
    files_of,
    marks_of,
)
from drumlin.broker.login.doors import Door, tls_of
from drumlin.config.config_error import ConfigError
from drumlin.config.keys import of_a_listener
from drumlin.peer.security import tls as client_tls
from drumlin.peer.security.settings import SecurityOptionError

if TYPE_CHECKING:
    from drumlin.broker.loop.threads import Threads
    from drumlin.config.broker import BrokerConfig
    from drumlin.peer.security.settings import Tls

_log = logging.getLogger(__name__)

_New = tuple["ServerTls", ssl.SSLContext]


class _Peers(Protocol):
    """The connections to other brokers."""

    #: The TLS of connections that are opened from now on.
    tls: Tls | None


class Renewal:
    """The certificates of all listeners with TLS, and of connections to other brokers."""

    def __init__(
        self, config: BrokerConfig, doors: Mapping[str, Door], peers: _Peers, threads: Threads
    ) -> None:
        self._config, self._peers, self._threads = config, peers, threads
        self._doors = {name: door for name, door in doors.items() if door.tls is not None}
        #: Held from `check` until the configuration is stored.
        self.changing = asyncio.Lock()
        self._lock = asyncio.Lock()
        #: The files as they were last read. Refused files are not read again until they change.
        self._marks: dict[str, Mark] = {}
        for door in self._doors.values():
            self._marks.update({} if door.tls is None else door.tls.files)
        #: Changed files found by the last `look`, not read yet: they may still be written to.
        self._found: dict[str, Mark] | None = None

    async def check(
        self, cluster_wide: Mapping[str, str], per_broker: Mapping[str, str], named: Iterable[str]
    ) -> None:
        """Check that listeners could change to a configuration; `named`: the keys that are set.

        Raises:
            ConfigError: a listener's new certificate is not valid, or may not replace the present
                one.
        """
        if not self._doors:
            return
        wanted = self._config.with_changes(cluster_wide, per_broker)
        changed = _listeners_of(named) | self._config.listeners_that_differ(wanted)
        for name in changed & self._doors.keys():
            await self._threads.administering(self._checked, wanted, self._doors[name])

    async def renew(self) -> None:
        """Use the certificates of the present configuration and files; log refused ones."""
        if self._doors:
            async with self._lock:
                await self._renew()

    async def look(self) -> None:
        """Look for changed files; use them once two looks in a row have found them the same."""
        if not self._doors or self._lock.locked():
            return
        found = await self._threads.administering(marks_of, [*self._marks])
        if found == self._marks:
            self._found = None
        elif found != self._found:
            self._found = found
        else:
            await self.renew()

    async def _renew(self) -> None:
        files = [file for name in self._doors for file in files_of(self._config, name)]
        self._marks = await self._threads.administering(marks_of, files)
        self._found = None
        for name, door in self._doors.items():
            try:
                new, is_all = await self._threads.administering(self._next, door)
            except ConfigError as error:
                _log.error("listener %s keeps its certificate: %s", name, error)
                continue
            if not is_all:
                self._marks = dict.fromkeys(files)  # the next `look` reads them again
            if new[0] != door.tls:
                door.take(*new)
                _tell(name, new[0])
        if self._config.inter_broker_listener_name in self._doors:
            await self._renew_peers()

    async def _renew_peers(self) -> None:
        """From now on connect to other brokers with the inter-broker listener's certificate."""
        door = self._doors[self._config.inter_broker_listener_name]
        if door.tls is not None:
            self._peers.tls = as_client(self._config, door.listener, door.tls)

    def _next(self, door: Door) -> tuple[_New, bool]:
        """The next TLS of a listener, and whether it has all that is new in its files: if both
        certificate and truststore are new, one may have to come first. Reads files.

        Raises:
            ConfigError: the files are not valid.
        """
        try:
            return self._checked(self._config, door), True
        except ConfigError:
            for half in _halves(self._config, door):
                with contextlib.suppress(SecurityOptionError):
                    self._check(self._config, door, door.tls, half)
                    return half, False
            raise

    def _checked(self, config: BrokerConfig, door: Door) -> _New:
        """The TLS of a listener with a configuration. Reads files.

        Raises:
            ConfigError: it is not valid, or may not replace the present one.
        """
        tls, context = tls_of(config, door.listener)
        old = door.tls
        assert old is not None
        if tls != old:
            try:
                self._check(config, door, old, (tls, context))
            except SecurityOptionError as error:
                name = f"ssl.keystore of listener {door.listener}"
                raise ConfigError(name, "...", str(error)) from None
        return tls, context

    def _check(self, config: BrokerConfig, door: Door, old: ServerTls | None, new: _New) -> None:
        tls, context = new
        assert old is not None
        shown = shown_in(old.shown.reveal())
        if tls.shown != old.shown:
            check_certificate(
                shown,
                shown_in(tls.shown.reveal()),
                name_may=config.of_listener(door.listener, "ssl.allow.dn.changes"),
                hosts_may=config.of_listener(door.listener, "ssl.allow.san.changes"),
            )
        if (old.trusted is None) != (tls.trusted is None):
            why = "a truststore can be exchanged, but not be added or removed"
            raise SecurityOptionError(why)
        if door.listener == config.inter_broker_listener_name:
            present = Sides(door.context, _client(self._config, door.listener, old))
            coming = Sides(context, _client(config, door.listener, tls))
            check_trust(present, coming, old_is_valid=shown.is_valid_now)


def _halves(config: BrokerConfig, door: Door) -> Iterator[_New]:
    """The new TLS of a listener with the old certificate, then with the old truststore."""
    (new, _), old = tls_of(config, door.listener), door.tls
    if old is None or new.shown == old.shown or new.trusted == old.trusted:
        return
    for half in (
        replace(new, shown=old.shown, key_password=old.key_password),
        replace(new, trusted=old.trusted),
    ):
        yield half, context_of(half)


def _client(config: BrokerConfig, listener: str, tls: ServerTls) -> ssl.SSLContext:
    shown = replace(as_client(config, listener, tls), check_host_name=False)
    return client_tls.context_of(shown)


def _listeners_of(keys: Iterable[str]) -> set[str]:
    return {parts[0].upper() for parts in map(of_a_listener, keys) if parts}


def _tell(listener: str, tls: ServerTls) -> None:
    shown: Shown = shown_in(tls.shown.reveal())
    _log.info(
        "listener %s has taken new keys: its certificate is for %s, until %s UTC",
        listener,
        shown.name,
        f"{shown.ends_at:%Y-%m-%d %H:%M}",
    )
