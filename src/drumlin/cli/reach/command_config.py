"""`--config FILE`: properties of Kafka's clients, as Kafka's own tools take them.

Decides which of them affect a command: addresses, security, and a few timeouts. An invalid security
property is refused; other properties without an effect are listed in one warning.
"""

from __future__ import annotations

import contextlib
import functools
from pathlib import Path
from typing import Annotated, Any, Final

import click
from click.core import ParameterSource

from drumlin.cli.terminal import output
from drumlin.cli.terminal.before_command import NAMED_BEFORE
from drumlin.cli.terminal.commands import Option
from drumlin.cli.terminal.contexts import BOOTSTRAP
from drumlin.cli.terminal.options import FOUND_BOOTSTRAP

ENVIRONMENT: Final = "DRUMLIN_COMMAND_CONFIG"


def _choose(context: click.Context, path: Path | None) -> Path | None:
    """The file: the command's own takes precedence over the one before the command."""
    before = context.meta.get(NAMED_BEFORE)
    is_asked_for = context.get_parameter_source("command_config") is ParameterSource.COMMANDLINE
    if before is not None and not is_asked_for:
        path, is_asked_for = before, True
    if path is not None:
        with contextlib.suppress(output.Failure):  # reported when the rest is read
            context.meta[FOUND_BOOTSTRAP] = properties_of(path).get(BOOTSTRAP), is_asked_for
    return path


def _option(*names: str) -> Option:
    return Option(
        *names,
        envvar=ENVIRONMENT,
        metavar="FILE",
        help="Properties of Kafka's clients: addresses, TLS, login.",
        choose=_choose,
        is_eager=True,
    )


def _choose_configs(context: click.Context, values: tuple[str, ...]) -> tuple[str, ...]:
    """The KEY=VALUE values, which belong to a topic; any other value is the command's file."""
    files = [each for each in values if "=" not in each]
    if len(files) > 1 or (files and not Path(files[0]).exists()):
        raise click.BadParameter(f"{files[-1]!r} is not KEY=VALUE")
    if files:
        context.meta[NAMED_BEFORE] = Path(files[0])
    return tuple(each for each in values if "=" in each)


CommandConfig = Annotated[Path | None, _option("--config", "--command-config")]
#: For commands whose --config primarily means a topic's configuration.
CommandConfigAlone = Annotated[Path | None, _option("--command-config")]
TopicConfigs = Annotated[
    list[str] | None,
    Option(
        "--config",
        "-c",
        metavar="KEY=VALUE",
        help="A configuration of the new topic; repeatable. A FILE is --command-config.",
        choose=_choose_configs,
        is_eager=True,
    ),
]
#: The prefix of a schema registry's properties.
REGISTRY: Final = "schema.registry."
_NUMBERS: Final = {
    "request.timeout.ms": "request_timeout_ms",
    "socket.connection.setup.timeout.ms": "connect_timeout_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "retry.backoff.max.ms": "retry_backoff_max_ms",
}


@functools.cache
def settings_of(path: Path | None) -> dict[str, Any]:
    """The settings in the file, by the names of `PeerOptions` and of `drumlin.connect`.

    Raises:
        output.Failure: the file does not exist, or is invalid.
    """
    from drumlin.peer.security.properties import PREFIXES
    from drumlin.peer.security.security import Security

    if path is None:
        return {}
    properties = properties_of(path)
    try:
        settings: dict[str, Any] = {"security": Security.of(properties)}
        for name, keyword in _NUMBERS.items():
            if name in properties:
                settings[keyword] = _positive(name, properties[name])
    except OSError as error:
        raise output.Failure(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise output.Failure(f"{path}: {error}") from None
    if "client.id" in properties:
        settings["client_id"] = properties["client.id"]
    others = properties.keys() - _NUMBERS.keys() - {"client.id", BOOTSTRAP}
    with_effect = (*PREFIXES, REGISTRY)
    without_effect = sorted(each for each in others if not each.startswith(with_effect))
    if without_effect:
        output.note(f"drumlin: {path}: without effect here: {', '.join(without_effect)}")
    return settings


@functools.cache
def properties_of(path: Path) -> dict[str, str]:
    """The properties in a file.

    Raises:
        output.Failure: the file does not exist, or is invalid.
    """
    from drumlin.config.properties import decode_properties

    try:
        return decode_properties(path.read_bytes())
    except OSError as error:
        raise output.Failure(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise output.Failure(f"{path}: {error}") from None


def _positive(name: str, text: str) -> int:
    if not text.strip().isdecimal() or int(text) == 0:
        raise ValueError(f"option '{name}': expected a positive number")
    return int(text)
