"""Names that the shell completes: fetched from the cluster that the line so far names.

Nothing here may delay a user who types, or print into the line: an error, or a cluster that does
not answer soon, completes nothing. Names that a shell would take for something else are left out: a
group may have any name, and click's scripts insert it as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from click.core import ParameterSource

from drumlin.cli.reach.command_config import properties_of, settings_of
from drumlin.cli.terminal import contexts
from drumlin.cli.terminal.before_command import NAMED_BEFORE
from drumlin.cli.terminal.options import DEFAULT_BOOTSTRAP

if TYPE_CHECKING:
    from drumlin.peer.broker_connections import BrokerConnections

_TIMEOUT_S: Final = 1.5
#: One word for every shell, and no option.
_HARMLESS: Final = re.compile(r"[\w.:@/+%][\w.:@/+%-]*")


def complete_topic(context: click.Context, incomplete: str) -> list[str]:
    """Topics that begin with the typed text; internal ones only after `__`."""

    async def ask(connections: BrokerConnections) -> list[str]:
        from drumlin.client.admin import admin

        return await admin.list_topics(connections, incomplete.startswith("__"))

    return _names(context, incomplete, ask)


def complete_group(context: click.Context, incomplete: str) -> list[str]:
    """Groups that begin with the typed text."""

    async def ask(connections: BrokerConnections) -> list[str]:
        from drumlin.client.admin import group_admin

        return [each.group for each in await group_admin.list_groups(connections, (), ())]

    return _names(context, incomplete, ask)


def _names(
    context: click.Context,
    incomplete: str,
    ask: Callable[[BrokerConnections], Awaitable[list[str]]],
) -> list[str]:
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stderr(nowhere):
        try:
            names = asyncio.run(_asked(*_where(context), ask))
        except Exception:  # noqa: BLE001 - an error would be printed into the line being typed
            return []
    return sorted(
        name for name in names if name.startswith(incomplete) and _HARMLESS.fullmatch(name)
    )


async def _asked(
    bootstrap: str,
    config: Path | None,
    ask: Callable[[BrokerConnections], Awaitable[list[str]]],
) -> list[str]:
    from drumlin.peer.broker_connections import BrokerConnections, parse_bootstrap
    from drumlin.peer.options import PeerOptions

    options = dataclasses.replace(PeerOptions(client_id="drumlin-cli"), **settings_of(config))
    connections = BrokerConnections(parse_bootstrap(bootstrap), options)
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            await connections.refresh(())
            return await ask(connections)
    finally:
        await connections.close()


def _where(context: click.Context) -> tuple[str, Path | None]:
    """Bootstrap address and configuration, chosen as for the command itself."""
    found = context.params.get("command_config")
    is_typed = context.get_parameter_source("command_config") is ParameterSource.COMMANDLINE
    typed = found if is_typed else context.meta.get(NAMED_BEFORE)
    said = typed or found
    config = Path(said) if said else None
    of_config = None if config is None else properties_of(config).get(contexts.BOOTSTRAP)
    bootstrap = context.params.get("bootstrap")
    source = context.get_parameter_source("bootstrap")
    if source is ParameterSource.COMMANDLINE and bootstrap:
        return bootstrap, config
    if source is ParameterSource.ENVIRONMENT and bootstrap and not (typed and of_config):
        return bootstrap, config
    if config is not None:
        return of_config or DEFAULT_BOOTSTRAP, config
    current = contexts.current()
    if current is not None:
        return contexts.bootstrap_of(current), contexts.existing(current)
    return DEFAULT_BOOTSTRAP, None
