"""`drumlin server`: reads the arguments and passes the broker its properties.

Imports nothing but click, the configuration and the broker: a broker must stay small.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Final

from drumlin.broker.log_lines.forms import FORM_KEY, Form, say
from drumlin.cli.terminal.commands import Argument, Option, command
from drumlin.cli.terminal.options import examples
from drumlin.config.config_error import ConfigError
from drumlin.config.sources import (
    nearest_variable,
    read_assignments,
    read_environment,
    read_properties_file,
    variables_of_kafkas_images,
)

_EXIT_CONFIGURATION: Final = 1
_PORT_MAX: Final = 65535
_BROKERS_MAX: Final = 256
# Variables of the command line itself; all other DRUMLIN_ variables are configuration.
_OUR_VARIABLES: Final = frozenset(
    {
        "DRUMLIN_BOOTSTRAP",
        "DRUMLIN_HEADINGS",
        "DRUMLIN_COMMAND_CONFIG",
        "DRUMLIN_TRACEBACK",
        "DRUMLIN_COMPLETE",
    }
)
EXAMPLES: Final = examples(
    "drumlin server --data ./data --listen 127.0.0.1:9092",
    "drumlin server --data /var/lib/drumlin --listen 192.0.2.1:9092",
    "drumlin server config/server.properties --set log.retention.hours=24 num.partitions=6",
    "drumlin server --data ./data --listen 127.0.0.1:9092 --brokers 0",
    "drumlin server --data ./data --listen 192.0.2.1:9092 --secure",
    "DRUMLIN_LOG_RETENTION_HOURS=24 drumlin server",
)


class LogFormat(enum.StrEnum):
    """The form of lines that are logged."""

    TEXT = "text"
    JSON = "json"


class LogLevel(enum.StrEnum):
    """The lowest level of lines that are logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def server(
    arguments: Annotated[
        list[str] | None,
        Argument(
            "[server.properties] [KEY=VALUE…]",
            help="A Kafka properties file, and configuration keys.",
        ),
    ] = None,
    data: Annotated[
        str | None, Option("--data", metavar="DIR", help="The directory of the logs (log.dirs).")
    ] = None,
    listen: Annotated[
        str | None,
        Option(
            "--listen",
            metavar="HOST:PORT",
            help="Where clients connect (listeners; without TLS, unless --secure).",
        ),
    ] = None,
    assignments: Annotated[
        list[str] | None,
        Option("--set", metavar="KEY=VALUE…", help="Set configuration keys."),
    ] = None,
    brokers: Annotated[
        int,
        Option(
            "--brokers",
            metavar="N",
            min=0,
            max=_BROKERS_MAX,
            help="How many brokers, each a process with the next port; 0: one for each core.",
        ),
    ] = 1,
    secure: Annotated[
        bool,
        Option("--secure", help="TLS, logins and ACLs; the first start makes what they need."),
    ] = False,
    log_level: Annotated[LogLevel, Option("--log-level", help="What is logged.")] = LogLevel.INFO,
    log_format: Annotated[
        LogFormat | None,
        Option(
            "--log-format", help="Lines of text, or a JSON object each (drumlin.logging.format)."
        ),
    ] = None,
) -> int:
    """Run a broker, or several, until SIGTERM or Ctrl-C; a line says when all is ready.

    Configuration keys are Kafka's, with Kafka's defaults and units. The command line takes
    precedence over the environment, the environment over the file. Without any, data go to
    /tmp/kafka-logs, and clients may connect from anywhere, to port 9092.

    With --secure clients need TLS and a login, and ACLs decide what users may do. The first start
    makes a certificate authority, a certificate, and the user "admin", who may do everything;
    files in the data directory have the settings to connect as that user. `drumlin users` and
    `drumlin acls` add other users and rights.
    """
    count = brokers or len(os.sched_getaffinity(0))
    told, form = "", _form_before(log_format, [*(assignments or ()), *(arguments or ())])
    try:
        protocol = "SASL_SSL" if secure else "PLAINTEXT"
        properties = _properties(arguments or [], data, listen, protocol, assignments or [])
        if log_format is not None:
            properties[FORM_KEY] = log_format
        form = Form.of(properties)
        for warning in _about_variables():
            say(form, warning, is_fatal=False)
        if secure:
            properties, told = _secured(properties, count)
    except ConfigError as error:
        say(form, str(error))
        return _EXIT_CONFIGURATION
    if count > 1:
        from drumlin.broker.machine import supervisor

        return supervisor.run(properties, count, log_level.upper(), told)
    from drumlin.broker.start.process import run

    return run(properties, log_level.upper(), told)


def _form_before(log_format: LogFormat | None, assignments: Iterable[str]) -> Form:
    """The form of what is said before, or instead of, reading the configuration."""
    if log_format is not None:
        return Form(log_format)
    stated = [each for each in assignments if each.startswith(f"{FORM_KEY}=")]
    return Form.of(read_environment(os.environ)[0] | read_assignments(stated))


def _secured(properties: dict[str, str], brokers: int) -> tuple[dict[str, str], str]:
    """The configuration of a secured server, and a text for the operator."""
    from drumlin.broker.start.startup import StartFailed
    from drumlin.securing.secured_server import secured_server

    try:
        secured = secured_server(properties, brokers)
    except OSError as error:
        raise ConfigError(str(error.filename), None, f"cannot be used: {error.strerror}") from None
    except StartFailed as error:
        raise ConfigError(str(error), None, "nothing was secured") from None
    return dict(secured.properties), secured.told


def _properties(
    arguments: list[str],
    data: str | None,
    listen: str | None,
    protocol: str,
    assignments: list[str],
) -> dict[str, str]:
    """The broker's configuration: arguments before the environment before the file."""
    has_file = arguments and ("=" not in arguments[0] or Path(arguments[0]).is_file())
    file, *others = arguments if has_file else (None, *arguments)
    properties = read_properties_file(Path(file)) if file else {}
    properties |= read_environment(os.environ)[0]
    if data:
        properties.pop("log.dir", None)
        properties["log.dirs"] = str(Path(data).absolute())
    if listen:
        _, colon, port = listen.rpartition(":")
        if not colon or not port.isdecimal() or len(port) > 5 or int(port) > _PORT_MAX:
            raise ConfigError("--listen", listen, "must be HOST:PORT, as 127.0.0.1:9092")
        properties["listeners"] = f"{protocol}://{listen}"
    return properties | read_assignments([*assignments, *others])


def _about_variables() -> Iterator[str]:
    """Warnings about variables of the environment that were perhaps meant for the broker."""
    for variable in read_environment(os.environ)[1]:
        if variable not in _OUR_VARIABLES:
            near = nearest_variable(variable)
            meant = f" (did you mean {near}?)" if near else ""
            yield f"{variable} names no configuration key{meant}"
    for variable, ours in variables_of_kafkas_images(os.environ):
        if ours not in os.environ:
            yield f"{variable} has no effect: it is {ours} here"


server_command: Final = command(server, epilog=EXAMPLES)
